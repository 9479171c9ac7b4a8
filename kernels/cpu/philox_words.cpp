#include "kernels/cpu/philox_words.h"

#include "runtime/core/config.h"

#ifdef LAMINA_PHILOX_AVX2
#include <immintrin.h>
#endif

namespace lamina::kernels::cpu {
namespace {

void words_plain(const int64_t* state, int64_t first, int64_t blocks, uint32_t* out) {
  for (int64_t b = 0; b < blocks; ++b) {
    philox::Block block = philox::draw(state[0], state[1], first + b);
    for (int i = 0; i < 4; ++i) out[4 * b + i] = block.word[i];
  }
}

}  // namespace

#ifdef LAMINA_PHILOX_AVX2
namespace {
#define LAMINA_AVX2 __attribute__((target("avx2"), always_inline)) inline

struct FourBlocks {
  __m256i word[4];
};

// The upper half of a lane is ignored: multiplications read only the lower half.
LAMINA_AVX2 FourBlocks start(const int64_t* state, int64_t block) {
  __m256i number = _mm256_add_epi64(_mm256_set1_epi64x(block), _mm256_setr_epi64x(0, 1, 2, 3));
  return {{number, _mm256_srli_epi64(number, 32), _mm256_set1_epi64x(state[1]), _mm256_set1_epi64x(int64_t(uint64_t(state[1]) >> 32))}};
}

LAMINA_AVX2 void round(FourBlocks& c, __m256i key0, __m256i key1, __m256i multiplier0, __m256i multiplier1) {
  __m256i p0 = _mm256_mul_epu32(c.word[0], multiplier0), p1 = _mm256_mul_epu32(c.word[2], multiplier1);
  c.word[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c.word[1]), key0);
  c.word[1] = p1;
  c.word[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c.word[3]), key1);
  c.word[3] = p0;
}

// The 16 words in order, in two registers.
LAMINA_AVX2 void in_order(const FourBlocks& c, __m256i& low, __m256i& high) {
  __m256i a = _mm256_blend_epi32(c.word[0], _mm256_slli_epi64(c.word[1], 32), 0xaa),
          b = _mm256_blend_epi32(c.word[2], _mm256_slli_epi64(c.word[3], 32), 0xaa);
  __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b);
  low = _mm256_permute2x128_si256(even, odd, 0x20);
  high = _mm256_permute2x128_si256(even, odd, 0x31);
}

// Constants of a draw: the keys of the rounds.
struct Keys {
  __m256i key0[philox::kRounds], key1[philox::kRounds];
};

LAMINA_AVX2 Keys keys_of(const int64_t* state) {
  Keys keys;
  uint32_t key0 = uint32_t(state[0]), key1 = uint32_t(uint64_t(state[0]) >> 32);
  for (int r = 0; r < philox::kRounds; ++r, key0 += philox::kWeyl0, key1 += philox::kWeyl1)
    keys.key0[r] = _mm256_set1_epi64x(key0), keys.key1[r] = _mm256_set1_epi64x(key1);
  return keys;
}

LAMINA_AVX2 void eight_blocks(const int64_t* state, const Keys& keys, int64_t block, __m256i out[4]) {
  FourBlocks a = start(state, block), b = start(state, block + 4);
  const __m256i multiplier0 = _mm256_set1_epi64x(philox::kMultiplier0), multiplier1 = _mm256_set1_epi64x(philox::kMultiplier1);
#pragma GCC unroll 10
  for (int r = 0; r < philox::kRounds; ++r) {
    round(a, keys.key0[r], keys.key1[r], multiplier0, multiplier1);
    round(b, keys.key0[r], keys.key1[r], multiplier0, multiplier1);
  }
  in_order(a, out[0], out[1]);
  in_order(b, out[2], out[3]);
}

__attribute__((target("avx2"))) void words_avx2(const int64_t* state, int64_t first, int64_t blocks, uint32_t* out) {
  const Keys keys = keys_of(state);
  for (int64_t b = 0; b < blocks; b += 8) {
    __m256i words[4];
    eight_blocks(state, keys, first + b, words);
    for (int i = 0; i < 4; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 4 * b + 8 * i), words[i]);
  }
}

}  // namespace

bool philox_uses_avx2() {
  const std::string& isa = config::cpu_isa();
  return isa == "avx2" || isa == "avx512";
}

__attribute__((target("avx2"))) void dropout_avx2(const float* x, const int64_t* state, uint32_t drop, float scale, float* y, int64_t first,
                                                  int64_t count) {
  const __m256i limit = _mm256_set1_epi32(int32_t(drop));
  const __m256 factor = _mm256_set1_ps(scale);
  const Keys keys = keys_of(state);
  for (int64_t i = first; i < first + count; i += 32) {
    __m256i words[4];
    eight_blocks(state, keys, i / 4, words);
    for (int j = 0; j < 4; ++j) {
      // word >= limit, unsigned: the larger of the two is the word itself
      __m256i keep = _mm256_cmpeq_epi32(_mm256_max_epu32(words[j], limit), words[j]);
      __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(x + (i - first) + 8 * j), factor);
      _mm256_storeu_ps(y + (i - first) + 8 * j, _mm256_and_ps(kept, _mm256_castsi256_ps(keep)));
    }
  }
}
#endif

void random_words(const int64_t* state, int64_t first, int64_t blocks, uint32_t* out) {
#ifdef LAMINA_PHILOX_AVX2
  if (philox_uses_avx2()) {
    int64_t whole = blocks / 8 * 8;
    words_avx2(state, first, whole, out);
    return words_plain(state, first + whole, blocks - whole, out + 4 * whole);
  }
#endif
  words_plain(state, first, blocks, out);
}

}  // namespace lamina::kernels::cpu
