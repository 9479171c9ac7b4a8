/* Lamina from C: load a saved program, call its functions, train it, save it. A plain C interface (C99) over lm::Module for other
 * languages.
 *
 * Every function that can fail returns a lamina_status; lamina_last_error() then has the text, and a handle that it should give is NULL. No
 * C++ exception leaves this interface, and nothing in it ends the process. Handles are opaque; each that a function gives is freed by its
 * _free function, which takes NULL too. Several threads may call one module at a time, and use different handles; a handle must not be
 * freed while another thread uses it.
 */
#ifndef LAMINA_C_H
#define LAMINA_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(LAMINA_BUILDING)
#define LAMINA_C __attribute__((visibility("default")))
#else
#define LAMINA_C
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. It grows when something is added; nothing is removed or changed under one number of lamina_c_version(). */
#define LAMINA_C_VERSION 2 /* 2: lamina_graph_... */
LAMINA_C int lamina_c_version(void);

typedef enum lamina_status {
  LAMINA_OK = 0,
  LAMINA_INVALID_ARGUMENT = 1,
  LAMINA_TYPE_MISMATCH = 2,
  LAMINA_SIGNATURE_MISMATCH = 3, /* no graph of the function takes these arguments */
  LAMINA_STATE_ERROR = 4,
  LAMINA_NOT_FOUND = 5, /* no function or Variable of this name */
  LAMINA_OUT_OF_MEMORY = 6,
  LAMINA_DEVICE_UNAVAILABLE = 7,
  LAMINA_BAD_FILE = 8,
  LAMINA_FAILED = 9,     /* anything else: a check of the program's own, an error inside of Lamina */
  LAMINA_TIME_LIMIT = 10 /* a call took longer than lamina_set_limits allows */
} lamina_status;

/* What the last function that failed on this thread said: what, where, why, fix. "" before the first. Valid until the next failure on this
 * thread. */
LAMINA_C const char* lamina_last_error(void);

typedef enum lamina_dtype {
  LAMINA_BOOL = 0, /* one byte, 0 or 1; other bytes that come in are true */
  LAMINA_U8 = 1,
  LAMINA_I8 = 2,
  LAMINA_I16 = 3,
  LAMINA_I32 = 4,
  LAMINA_I64 = 5,
  LAMINA_F16 = 6,
  LAMINA_BF16 = 7,
  LAMINA_F32 = 8,
  LAMINA_F64 = 9,
  LAMINA_U16 = 10,
  LAMINA_U32 = 11,
  LAMINA_U64 = 12,
  LAMINA_C64 = 13, /* pairs of float: real and imaginary part */
  LAMINA_C128 = 14 /* pairs of double */
} lamina_dtype;

typedef struct lamina_tensor lamina_tensor;
typedef struct lamina_results lamina_results;
typedef struct lamina_module lamina_module;

/* A tensor with a copy of `data`: row-major elements, as many as the product of `shape` says; `shape` may be NULL where rank is 0. */
LAMINA_C lamina_status lamina_tensor_new(lamina_dtype dtype, size_t rank, const int64_t* shape, const void* data, lamina_tensor** out);
LAMINA_C lamina_dtype lamina_tensor_dtype(const lamina_tensor* tensor);
LAMINA_C size_t lamina_tensor_rank(const lamina_tensor* tensor);
LAMINA_C int64_t lamina_tensor_length(const lamina_tensor* tensor, size_t axis); /* -1 for an axis that it does not have */
LAMINA_C size_t lamina_tensor_bytes(const lamina_tensor* tensor);
/* The elements in host memory, row-major, as long as the tensor lives; waits for them. */
LAMINA_C lamina_status lamina_tensor_data(const lamina_tensor* tensor, const void** out);
LAMINA_C void lamina_tensor_free(lamina_tensor* tensor);

/* The folder that lm.save or lamina_module_save wrote. */
LAMINA_C lamina_status lamina_module_load(const char* path, lamina_module** out);
LAMINA_C lamina_status lamina_module_save(const lamina_module* module, const char* path);
LAMINA_C void lamina_module_free(lamina_module* module);
/* A line for each signature, function and Variable, as long as the module lives. */
LAMINA_C const char* lamina_module_text(const lamina_module* module);

/* What calls take and give: the graphs of all functions, by number. A function has one for each set of types that it was traced for. */
typedef struct lamina_value {
  const char* name; /* of the argument or result; lives as long as the module, as `shape` does */
  lamina_dtype dtype;
  size_t rank;
  const int64_t* shape; /* -1: any length */
} lamina_value;
LAMINA_C size_t lamina_graph_count(const lamina_module* module);
LAMINA_C const char* lamina_graph_function(const lamina_module* module, size_t graph); /* its function's name; NULL beyond the last */
LAMINA_C size_t lamina_graph_arguments(const lamina_module* module, size_t graph);     /* how many tensors it takes, ... */
LAMINA_C size_t lamina_graph_results(const lamina_module* module, size_t graph);       /* ... and gives */
LAMINA_C lamina_status lamina_graph_argument(const lamina_module* module, size_t graph, size_t index, lamina_value* out);
LAMINA_C lamina_status lamina_graph_result(const lamina_module* module, size_t graph, size_t index, lamina_value* out);

/* Limits on each later call of this thread, for programs that are not trusted: its time, and the memory that it requests and holds. A
   negative one does not hold. */
LAMINA_C lamina_status lamina_set_limits(double seconds, int64_t bytes);

/* Calls a function, by its name or a signature's, with `count` tensors by name. Variables that it assigns change. */
LAMINA_C lamina_status lamina_call(const lamina_module* module, const char* function, size_t count, const char* const* names,
                                   const lamina_tensor* const* tensors, lamina_results** out);
LAMINA_C size_t lamina_results_count(const lamina_results* results);
LAMINA_C const char* lamina_results_name(const lamina_results* results, size_t index);              /* NULL beyond the last */
LAMINA_C const lamina_tensor* lamina_results_tensor(const lamina_results* results, size_t index);   /* belongs to the results */
LAMINA_C const lamina_tensor* lamina_results_find(const lamina_results* results, const char* name); /* NULL: there is none */
LAMINA_C void lamina_results_free(lamina_results* results);

LAMINA_C lamina_status lamina_variable_read(const lamina_module* module, const char* name, lamina_tensor** out);
LAMINA_C lamina_status lamina_variable_assign(const lamina_module* module, const char* name, const lamina_tensor* value);

#ifdef __cplusplus
}
#endif
#endif
