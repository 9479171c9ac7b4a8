/* Loads a saved program, calls it, trains it one step and saves it again. Plain C99 over liblamina.so.
 *
 *   cc -std=c99 serve.c -llamina -o serve && ./serve policy policy_trained
 */
#include <lamina/lamina_c.h>
#include <stdio.h>
#include <stdlib.h>

static void check(lamina_status status) {
  if (status == LAMINA_OK) return;
  fprintf(stderr, "error %d: %s\n", (int)status, lamina_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  const float rows[2][3] = {{1, 2, 3}, {4, 5, 6}}, wanted[2][1] = {{1}, {0}};
  const int64_t rows_shape[2] = {2, 3}, wanted_shape[2] = {2, 1};
  lamina_module* policy = NULL;
  lamina_tensor *x = NULL, *y = NULL;
  const char* names[2] = {"x", "y"};
  const lamina_tensor* arguments[2];
  lamina_results* results = NULL;
  const void* data = NULL;
  if (argc != 3) return 2;

  check(lamina_module_load(argv[1], &policy));
  printf("%s", lamina_module_text(policy));
  check(lamina_tensor_new(LAMINA_F32, 2, rows_shape, rows, &x));
  check(lamina_tensor_new(LAMINA_F32, 2, wanted_shape, wanted, &y));

  arguments[0] = x;
  check(lamina_call(policy, "score", 1, names, arguments, &results));
  check(lamina_tensor_data(lamina_results_find(results, "output"), &data));
  printf("scores %g %g\n", ((const float*)data)[0], ((const float*)data)[1]);
  lamina_results_free(results);

  arguments[1] = y;
  check(lamina_call(policy, "step", 2, names, arguments, &results));
  check(lamina_tensor_data(lamina_results_find(results, "loss"), &data));
  printf("loss %g\n", *(const float*)data);
  lamina_results_free(results);
  check(lamina_module_save(policy, argv[2]));

  lamina_tensor_free(x);
  lamina_tensor_free(y);
  lamina_module_free(policy);
  return 0;
}
