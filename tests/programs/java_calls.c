/* SPDX-License-Identifier: MIT
 *
 * Native methods of java/Calls.java that call the driver: called by Java, in a critical region,
 * with an exception pending, between Java and Java, on threads that attach themselves. Declares JNI
 * by the places of its functions, because a JDK's headers may be missing.
 */
#include <pthread.h>
#include <stdint.h>

#include "cu.h"

#define JAVA(name) Java_Calls_##name
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
typedef struct { void **functions; } *object;
#define CALL(object, index, type, ...) \
	(((type)(object)->functions[index])((object), __VA_ARGS__))

static void prepare(void)
{
	static __thread int done;
	CUcontext context;

	if (done)
		return;
	cuInit(0);
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	done = 1;
}

int64_t JAVA(alloc)(object env, void *class, int64_t bytes)
{
	CUdeviceptr block = 0;

	(void)env;
	(void)class;
	prepare();
	cuMemAlloc_v2(&block, (size_t)bytes);
	return (int64_t)block;
}

void JAVA(free)(object env, void *class, int64_t block)
{
	(void)env;
	(void)class;
	cuMemFree_v2((CUdeviceptr)block);
}

int64_t JAVA(allocCritical)(object env, void *class, void *array, int64_t bytes)
{
	void *elements = CALL(env, 222, void *(*)(object, void *, unsigned char *), array, NULL);
	int64_t block = JAVA(alloc)(env, class, bytes);

	CALL(env, 223, void (*)(object, void *, void *, int), array, elements, 0);
	return block;
}

void JAVA(allocAndThrow)(object env, void *class, int64_t bytes)
{
	void *error = CALL(env, 6, void *(*)(object, const char *),
			   "java/lang/IllegalStateException");

	CALL(env, 14, int (*)(object, void *, const char *), error, "thrown before");
	JAVA(alloc)(env, class, bytes);
}

void JAVA(callBack)(object env, void *class)
{
	void *method = CALL(env, 113, void *(*)(object, void *, const char *, const char *), class,
			    "calledBack", "()V");

	CALL(env, 141, void (*)(object, void *, void *), class, method);
}

static object vm;

static void *attach(void *rounds)
{
	for (intptr_t i = 0; i < (intptr_t)rounds; i++) {
		object env;
		int64_t block;

		block = JAVA(alloc)(NULL, NULL, 64);
		if (CALL(vm, 4, int (*)(object, object *, void *), &env, NULL) == 0) {
			JAVA(free)(env, NULL, block);
			block = JAVA(alloc)(env, NULL, 128);
			((int (*)(object))vm->functions[5])(vm);
		}
		JAVA(free)(NULL, NULL, block);
	}
	return NULL;
}

void JAVA(attachThreads)(object env, void *class, int threads, int64_t rounds)
{
	pthread_t thread[16];

	(void)class;
	CALL(env, 219, int (*)(object, object *), &vm);
	for (int i = 0; i < threads && i < 16; i++)
		pthread_create(&thread[i], NULL, attach, (void *)(intptr_t)rounds);
	for (int i = 0; i < threads && i < 16; i++)
		pthread_join(thread[i], NULL);
}

static _Atomic int attaching;

static void *attach_only(void *unused)
{
	(void)unused;
	while (attaching) {
		object env;

		CALL(vm, 4, int (*)(object, object *, void *), &env, NULL);
		((int (*)(object))vm->functions[5])(vm);
	}
	return NULL;
}

/* Starts or ends threads that attach and detach themselves. */
void JAVA(keepAttaching)(object env, void *class, unsigned char begins)
{
	static pthread_t thread[6];

	(void)class;
	CALL(env, 219, int (*)(object, object *), &vm);
	attaching = begins;
	for (int i = 0; i < 6; i++)
		if (begins)
			pthread_create(&thread[i], NULL, attach_only, NULL);
		else
			pthread_join(thread[i], NULL);
}
