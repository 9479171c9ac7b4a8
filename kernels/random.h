// Draws from a generator's state: i64 [2] {seed, counter}, or [models...,2]: then y's leading axes are the models, and elements are
// numbered within their model. Element i depends only on seed, counter and i.
#pragma once
#include "runtime/core/view.h"
#include "runtime/device/stream.h"

namespace lamina::kernels::cpu {

// Uniform in [low, high): 53 random bits for f64, otherwise 24. Half types are rounded down, so that comparisons between draws have the
// right probabilities. y: contiguous.
template <class T>
void random_uniform(Stream&, const View& state, const View& y, double low, double high);
// Normal by Box and Muller from 32-bit words (f64: 53 bits): elements 2j and 2j+1 are the pair's cosine and sine. y: contiguous.
template <class T>
void random_normal(Stream&, const View& state, const View& y, double mean, double deviation);

// Integers in [low, high): the upper part of the product of 64 random bits with the range (Lemire, "Fast random integer generation in an
// interval", 2019, without rejection: probabilities differ by less than range / 2^64). y: contiguous, any integer type.
template <class T>
void random_integers(Stream&, const View& state, const View& y, int64_t low, int64_t high);
// Truncated normal in [low, high], by the inverse distribution function (Wichura, AS 241) of a 32-bit uniform number (f64: 53 bits). y:
// contiguous.
template <class T>
void random_truncated_normal(Stream&, const View& state, const View& y, double mean, double deviation, double low, double high);

// out[4 blocks]: the words of blocks first .. first + blocks of a draw.
void random_words(const int64_t* state, int64_t first, int64_t blocks, uint32_t* out);

}  // namespace lamina::kernels::cpu

namespace lamina::kernels::cuda {
template <class T>
void random_uniform(Stream&, const View& state, const View& y, double low, double high);
template <class T>
void random_normal(Stream&, const View& state, const View& y, double mean, double deviation);
template <class T>
void random_integers(Stream&, const View& state, const View& y, int64_t low, int64_t high);
template <class T>
void random_truncated_normal(Stream&, const View& state, const View& y, double mean, double deviation, double low, double high);
}  // namespace lamina::kernels::cuda
