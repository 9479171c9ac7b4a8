/* The native methods of LaminaModule: C99 over lamina_c.h, which shows that the C interface is enough for a binding. */
#include <jni.h>
#include <lamina/lamina_c.h>
#include <stddef.h>
#include <stdint.h>

static void fail(JNIEnv* env) {
  (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/RuntimeException"), lamina_last_error());
}

/* A float[] and a long[] as a LaminaModule.Floats. */
static jobject floats_of(JNIEnv* env, const lamina_tensor* tensor) {
  const void* data = NULL;
  const size_t rank = lamina_tensor_rank(tensor);
  const jsize count = (jsize)(lamina_tensor_bytes(tensor) / sizeof(jfloat));
  if (lamina_tensor_dtype(tensor) != LAMINA_F32) {
    (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/RuntimeException"), "the result is not float32");
    return NULL;
  }
  if (lamina_tensor_data(tensor, &data) != LAMINA_OK) return fail(env), NULL;
  jfloatArray values = (*env)->NewFloatArray(env, count);
  jlongArray shape = (*env)->NewLongArray(env, (jsize)rank);
  if (values == NULL || shape == NULL) return NULL;
  (*env)->SetFloatArrayRegion(env, values, 0, count, (const jfloat*)data);
  for (size_t i = 0; i < rank; ++i) {
    const jlong length = lamina_tensor_length(tensor, i);
    (*env)->SetLongArrayRegion(env, shape, (jsize)i, 1, &length);
  }
  jclass type = (*env)->FindClass(env, "LaminaModule$Floats");
  return (*env)->NewObject(env, type, (*env)->GetMethodID(env, type, "<init>", "([F[J)V"), values, shape);
}

/* The tensor of element i of float[][] and long[][]; NULL: an exception is on its way. */
static lamina_tensor* tensor_of(JNIEnv* env, jobjectArray all_values, jobjectArray all_shapes, jsize i) {
  lamina_tensor* out = NULL;
  jfloatArray values = (*env)->GetObjectArrayElement(env, all_values, i);
  jlongArray shape = (*env)->GetObjectArrayElement(env, all_shapes, i);
  jfloat* data = (*env)->GetFloatArrayElements(env, values, NULL);
  jlong* lengths = (*env)->GetLongArrayElements(env, shape, NULL);
  const jsize rank = (*env)->GetArrayLength(env, shape);
  int64_t elements = 1;
  for (jsize axis = 0; axis < rank; ++axis) elements *= lengths[axis];
  if (elements != (*env)->GetArrayLength(env, values))
    (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/IllegalArgumentException"), "the shape has another number of elements");
  else if (lamina_tensor_new(LAMINA_F32, (size_t)rank, (const int64_t*)lengths, data, &out) != LAMINA_OK)
    fail(env);
  (*env)->ReleaseFloatArrayElements(env, values, data, JNI_ABORT);
  (*env)->ReleaseLongArrayElements(env, shape, lengths, JNI_ABORT);
  return out;
}

JNIEXPORT jlong JNICALL Java_LaminaModule_load(JNIEnv* env, jclass self, jstring path) {
  lamina_module* module = NULL;
  const char* text = (*env)->GetStringUTFChars(env, path, NULL);
  (void)self;
  if (lamina_module_load(text, &module) != LAMINA_OK) fail(env);
  (*env)->ReleaseStringUTFChars(env, path, text);
  return (jlong)(intptr_t)module;
}

JNIEXPORT void JNICALL Java_LaminaModule_free(JNIEnv* env, jclass self, jlong handle) {
  (void)env, (void)self;
  lamina_module_free((lamina_module*)(intptr_t)handle);
}

JNIEXPORT jobject JNICALL Java_LaminaModule_read(JNIEnv* env, jclass self, jlong handle, jstring variable) {
  lamina_tensor* value = NULL;
  jobject out = NULL;
  const char* name = (*env)->GetStringUTFChars(env, variable, NULL);
  (void)self;
  if (lamina_variable_read((lamina_module*)(intptr_t)handle, name, &value) != LAMINA_OK)
    fail(env);
  else
    out = floats_of(env, value);
  lamina_tensor_free(value);
  (*env)->ReleaseStringUTFChars(env, variable, name);
  return out;
}

#define MOST_ARGUMENTS 16

JNIEXPORT jobject JNICALL Java_LaminaModule_call(JNIEnv* env, jclass self, jlong handle, jstring function, jstring result, jobjectArray names,
                                                 jobjectArray values, jobjectArray shapes) {
  const char* texts[MOST_ARGUMENTS] = {0};
  jstring strings[MOST_ARGUMENTS] = {0};
  lamina_tensor* tensors[MOST_ARGUMENTS] = {0};
  lamina_results* results = NULL;
  jobject out = NULL;
  const jsize count = (*env)->GetArrayLength(env, values);
  const char* called = (*env)->GetStringUTFChars(env, function, NULL);
  const char* wanted = (*env)->GetStringUTFChars(env, result, NULL);
  int ready = count <= MOST_ARGUMENTS && (*env)->GetArrayLength(env, names) == count;
  (void)self;
  if (!ready) (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/IllegalArgumentException"), "there is not one name for each argument");
  for (jsize i = 0; ready && i < count; ++i) {
    strings[i] = (*env)->GetObjectArrayElement(env, names, i);
    texts[i] = (*env)->GetStringUTFChars(env, strings[i], NULL);
    tensors[i] = tensor_of(env, values, shapes, i);
    ready = tensors[i] != NULL;
  }
  if (ready) {
    if (lamina_call((const lamina_module*)(intptr_t)handle, called, (size_t)count, texts, (const lamina_tensor* const*)tensors, &results) !=
        LAMINA_OK)
      fail(env);
    else if (lamina_results_find(results, wanted) == NULL)
      (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/IllegalArgumentException"), "there is no result of this name");
    else
      out = floats_of(env, lamina_results_find(results, wanted));
  }
  for (jsize i = 0; i < count && i < MOST_ARGUMENTS; ++i) {
    lamina_tensor_free(tensors[i]);
    if (texts[i]) (*env)->ReleaseStringUTFChars(env, strings[i], texts[i]);
  }
  lamina_results_free(results);
  (*env)->ReleaseStringUTFChars(env, function, called);
  (*env)->ReleaseStringUTFChars(env, result, wanted);
  return out;
}
