// Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): a counter and a key give four random
// words, so any element of a draw can be computed independently. Compiled by g++ and nvcc alike: no includes.
//
// Element i of draw `counter` of the generator `seed` is word i % 4 of block i / 4 (64-bit draws: words 2 (i % 2) and 2 (i % 2) + 1 of
// block i / 2). The block number fills the lower half of the Philox counter, the draw's number the upper half, the seed is the key.
#pragma once

#if defined(__CUDACC__)
#define LAMINA_PHILOX_FUNCTION __host__ __device__ inline
#else
#define LAMINA_PHILOX_FUNCTION inline
#endif

namespace lamina::philox {

inline constexpr unsigned int kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
inline constexpr unsigned int kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;  // added to the key after each round
inline constexpr int kRounds = 10;

struct Block {
  unsigned int word[4];
};

LAMINA_PHILOX_FUNCTION Block philox(Block c, unsigned int key0, unsigned int key1) {
  for (int round = 0; round < kRounds; ++round) {
    unsigned long long p0 = static_cast<unsigned long long>(kMultiplier0) * c.word[0],
                       p1 = static_cast<unsigned long long>(kMultiplier1) * c.word[2];
    c = Block{{static_cast<unsigned int>(p1 >> 32) ^ c.word[1] ^ key0, static_cast<unsigned int>(p1),
               static_cast<unsigned int>(p0 >> 32) ^ c.word[3] ^ key1, static_cast<unsigned int>(p0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return c;
}

// Block `block` of draw `counter` of generator `seed`.
LAMINA_PHILOX_FUNCTION Block draw(long long seed, long long counter, long long block) {
  unsigned long long s = static_cast<unsigned long long>(seed), c = static_cast<unsigned long long>(counter),
                     b = static_cast<unsigned long long>(block);
  return philox(Block{{static_cast<unsigned int>(b), static_cast<unsigned int>(b >> 32), static_cast<unsigned int>(c),
                       static_cast<unsigned int>(c >> 32)}},
                static_cast<unsigned int>(s), static_cast<unsigned int>(s >> 32));
}

// [0, 1) from the upper bits of words; every value is exact as a float or double.
LAMINA_PHILOX_FUNCTION float unit24(unsigned int word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
LAMINA_PHILOX_FUNCTION double unit53(unsigned int low, unsigned int high) {
  return static_cast<double>(((static_cast<unsigned long long>(high) << 32) | low) >> 11) * 0x1p-53;
}

// An element is dropped if its word is below this. rate is in [0, 1); exact to 2^-32.
LAMINA_PHILOX_FUNCTION unsigned int drop_below(float rate) { return static_cast<unsigned int>(static_cast<double>(rate) * 4294967296.0); }

}  // namespace lamina::philox
