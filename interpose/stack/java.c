/* SPDX-License-Identifier: MIT
 *
 * Reads Java frames by JVMTI's GetStackTrace. Supports HotSpot only: its table gHotSpotVMStructs
 * has the place of a thread's state. Never attaches a thread, calls the JVM only in states of a
 * thread in which HotSpot allows it, and never leaves an exception or a local reference behind.
 */
#include "interpose/stack/interpreters.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "interpose/dispatch/observations.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/recorder/recorder.h"
#include "interpose/stack/python.h"
#include "ledger/clock.h"
#include "ledger/nocancel.h"

#define NAP_NS 100000
#define NAPS_MAX 10000u /* about a second */
/* A thread that attached itself when the table was changed is in the JVM's list of threads after
 * this time. */
#define SETTLED_NS 5000000u
#define THREADS_MAX 65536u

/* A JavaVM, JNIEnv or jvmtiEnv. */
struct object {
	void **functions;
};
typedef struct object *object;
typedef struct reference *reference; /* jobject, jclass, jthread */
typedef struct method *method;       /* jmethodID */

/* Places in the tables of the specifications "Java Native Interface" ("Invocation API" for a
 * JavaVM) and "JVM Tool Interface", which begins to count at 1. */
enum {
	VM_ATTACH = 4,
	VM_GET_ENV = 6,
	VM_ATTACH_AS_DAEMON = 7,
	VM_FUNCTIONS = 8,
	JNI_EXCEPTION_CLEAR = 17,
	JNI_DELETE_LOCAL_REF = 23,
	JNI_GET_OBJECT_CLASS = 31,
	JNI_GET_FIELD_ID = 94,
	JNI_GET_LONG_FIELD = 101,
	JNI_GET_ARRAY_CRITICAL = 222,
	JNI_RELEASE_ARRAY_CRITICAL = 223,
	JNI_GET_STRING_CRITICAL = 224,
	JNI_RELEASE_STRING_CRITICAL = 225,
	JNI_EXCEPTION_CHECK = 228,
	JVMTI_GET_CURRENT_THREAD = 18 - 1,
	JVMTI_DEALLOCATE = 47 - 1,
	JVMTI_GET_CLASS_SIGNATURE = 48 - 1,
	JVMTI_GET_SOURCE_FILE_NAME = 50 - 1,
	JVMTI_GET_METHOD_NAME = 64 - 1,
	JVMTI_GET_METHOD_DECLARING_CLASS = 65 - 1,
	JVMTI_GET_LINE_NUMBER_TABLE = 70 - 1,
	JVMTI_GET_STACK_TRACE = 104 - 1,
	JVMTI_ADD_CAPABILITIES = 142 - 1,
};
/* Calls the function at INDEX, which has TYPE without its first parameter OBJECT. */
#define CALL(object, index, type, ...) \
	(((type)(object)->functions[index])((object), __VA_ARGS__))

/* Read from HotSpot's table gHotSpotVMStructs. An offset is 0 if the table lacks the field. */
struct java_fields {
	uint64_t state; /* in the object of a thread, as the next two */
	uint64_t java_object;
	uint64_t virtual_thread;
	uint64_t list_length, list_threads; /* in the list of all threads */
	uintptr_t list;                     /* the address of the pointer to that list */
};

#define JNI_VERSION 0x00010002
#define JVMTI_VERSION 0x30010200
typedef int get_env_fn(object vm, object *ret, int version);
/* can_get_source_file_name and can_get_line_numbers. HotSpot has them in all phases, and they make
 * nothing slower. */
static const uint32_t capabilities[4] = { 1u << 11 | 1u << 12 };

/* A struct chain_frame is a jvmtiFrameInfo: `code` is the method, `at` the index of a byte code, or
 * -1 in a native method. */
_Static_assert(sizeof(struct chain_frame) == 16, "jvmtiFrameInfo has 16 bytes");
struct line_number { /* jvmtiLineNumberEntry */
	int64_t start;
	int line;
};

/* The state of a HotSpot thread that runs native code, so that it may call the JVM. Others are: it
 * runs Java and was interrupted by a signal handler, or called a native function that was linked as
 * `critical`; it runs code of the JVM, or waits there. */
#define STATE_IN_NATIVE 4
/* A JNIEnv lies in the JVM's object of its thread, which is not larger. */
#define THREAD_BYTES_MAX 16384
#define NAME_MAX_BYTES 1000 /* longer names of methods are cut */

typedef int created_vms_fn(object *ret, int size, int *ret_count);
static _Atomic(created_vms_fn *) created_vms;
static struct java_fields fields; /* written before created_vms */

static struct jvm {
	object vm, jvmti;
	int64_t state_from_env; /* distance from a thread's JNIEnv to its state */
	uint32_t generation;    /* of the recorder. A child after a fork has no threads of a JVM. */
} jvm;
static _Atomic int step; /* 0, or 1 while one thread prepares `jvm`, or 2 if it is ready */

/* ---- what the JVM does not report ----
 *
 * Critical regions of the thread, and threads that attach themselves. Entries of the tables of
 * JNI's functions are replaced to count them, as JVMTI's SetJNIFunctionTable does, but without the
 * JVM's help: asking it could be the very call that is forbidden now. */

static void nap(void)
{
	nocancel_nanosleep(&(struct timespec){ .tv_nsec = NAP_NS });
}

/* Waits as long as *AT is BUSY, for a second at most. */
static void wait_while(const _Atomic int *at, int busy)
{
	for (unsigned int naps = 0; naps < NAPS_MAX && atomic_load(at) == busy; naps++)
		nap();
}

/* ---- critical regions ----
 *
 * Between GetPrimitiveArrayCritical() or GetStringCritical() and the release, a thread must not
 * call the JVM: it may keep the garbage collector waiting, and would wait for that itself. */

typedef void *get_critical_fn(object env, reference array, unsigned char *is_copy);
typedef void release_array_fn(object env, reference array, void *elements, int mode);
typedef void release_string_fn(object env, reference string, const void *letters);
static get_critical_fn *real_get_array, *real_get_string;
static release_array_fn *real_release_array;
static release_string_fn *real_release_string;

static void leave_critical(void)
{
	if (thread_self.java_critical) /* 0: the region began before the table was changed */
		thread_self.java_critical--;
}

static void *get_array(object env, reference array, unsigned char *is_copy)
{
	void *ret = real_get_array(env, array, is_copy);

	thread_self.java_critical += ret != NULL;
	return ret;
}

static void *get_string(object env, reference string, unsigned char *is_copy)
{
	void *ret = real_get_string(env, string, is_copy);

	thread_self.java_critical += ret != NULL;
	return ret;
}

static void release_array(object env, reference array, void *elements, int mode)
{
	real_release_array(env, array, elements, mode);
	leave_critical();
}

static void release_string(object env, reference string, const void *letters)
{
	real_release_string(env, string, letters);
	leave_critical();
}

/* Stores WITH at AT. The former value is in *REAL before another thread can call WITH. */
static void replace(void **at, void *real, void *with)
{
	memcpy(real, at, sizeof(*at));
	atomic_thread_fence(memory_order_seq_cst);
	atomic_store_explicit((_Atomic(void *) *)at, with, memory_order_release);
}

static void count_critical(object env)
{
	void **at = env->functions;

	replace(&at[JNI_RELEASE_ARRAY_CRITICAL], &real_release_array, (void *)release_array);
	replace(&at[JNI_RELEASE_STRING_CRITICAL], &real_release_string, (void *)release_string);
	replace(&at[JNI_GET_ARRAY_CRITICAL], &real_get_array, (void *)get_array);
	replace(&at[JNI_GET_STRING_CRITICAL], &real_get_string, (void *)get_string);
}

/* ---- threads that attach themselves ---- */

typedef int attach_fn(object vm, object *ret, void *arguments);
static attach_fn *real_attach, *real_attach_as_daemon;
static _Atomic unsigned int attaching;
static _Atomic bool is_locked;
static _Atomic uint64_t counted_since_ns; /* 0: the table is not changed yet */

static int attach_by(attach_fn *real, object vm, object *ret, void *arguments)
{
	int result;

	for (unsigned int naps = 0;; naps++) {
		atomic_fetch_add(&attaching, 1);
		if (!atomic_load(&is_locked) || naps == NAPS_MAX)
			break;
		atomic_fetch_sub(&attaching, 1);
		nap();
	}
	result = real(vm, ret, arguments);
	atomic_fetch_sub(&attaching, 1);
	return result;
}

static int attach(object vm, object *ret, void *arguments)
{
	return attach_by(real_attach, vm, ret, arguments);
}

static int attach_as_daemon(object vm, object *ret, void *arguments)
{
	return attach_by(real_attach_as_daemon, vm, ret, arguments);
}

/* The table itself is in read-only memory, so the JVM gets a copy. */
static void count_attaching(object vm)
{
	static void *copy[VM_FUNCTIONS];

	memcpy(copy, vm->functions, sizeof(copy));
	replace(&copy[VM_ATTACH], &real_attach, (void *)attach);
	replace(&copy[VM_ATTACH_AS_DAEMON], &real_attach_as_daemon, (void *)attach_as_daemon);
	atomic_store_explicit((_Atomic(void **) *)&vm->functions, copy, memory_order_release);
	atomic_store(&counted_since_ns, clock_ns(CLOCK_MONOTONIC));
}

/* Changes the table of VM, so that attaching threads are counted, and if ENV is not NULL also that
 * of ENV, so that critical regions are counted. Does so once each. */
static void count_calls(object vm, object env)
{
	static _Atomic bool vm_is_changed, env_is_changed;

	if (!atomic_exchange(&vm_is_changed, true))
		count_attaching(vm);
	if (env && !atomic_exchange(&env_is_changed, true))
		count_critical(env);
}

/* The list may be freed meanwhile, so the kernel reads it. */
static bool read_at(uintptr_t at, void *ret, size_t size)
{
	struct iovec here = { ret, size }, there = { (void *)at, size };

	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)size;
}

/* Returns true if each thread in the JVM's list has an object of Java. A thread that attaches
 * itself gets it later. */
static bool all_are_attached(void)
{
	uintptr_t list, threads, thread, at;
	uint32_t count;

	if (!read_at(fields.list, &list, sizeof(list)) ||
	    !read_at(list + fields.list_length, &count, sizeof(count)) || count > THREADS_MAX ||
	    !read_at(list + fields.list_threads, &threads, sizeof(threads)))
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (!read_at(threads + i * sizeof(thread), &thread, sizeof(thread)) ||
		    !read_at(thread + fields.java_object, &at, sizeof(at)) ||
		    !read_at(at, &at, sizeof(at)) || !at)
			return false;
	return true;
}

/* Locks threads out that want to attach themselves, and waits for those that are just doing it: a
 * JVM with virtual threads may crash then if it is asked for JVMTI for the first time. Returns
 * false if they take longer than a second. Both results need an unlock_attaching(). */
static bool lock_attaching(void)
{
	uint64_t since;

	if (!fields.virtual_thread)
		return true;
	while (!(since = atomic_load(&counted_since_ns)) ||
	       clock_ns(CLOCK_MONOTONIC) < since + SETTLED_NS)
		nap();
	atomic_store(&is_locked, true);
	for (unsigned int naps = 0; naps < NAPS_MAX; naps++) {
		if (!atomic_load(&attaching) && all_are_attached())
			return true;
		nap();
	}
	return false;
}

static void unlock_attaching(void)
{
	atomic_store(&is_locked, false);
}

/* ---- finding ---- */

struct vm_field { /* VMStructEntry of HotSpot */
	const char *type, *name, *type_of_field;
	int32_t is_static;
	uint64_t offset;
	void *address;
};

static void leave_alone(const char *why)
{
	observation_record(OBSERVED_JAVA_LEFT, "virtual machine", NULL, why);
}

static void find_fields(const char *path, struct java_fields *ret)
{
	const struct {
		const char *type, *name;
		uint64_t *offset;
	} wanted[] = {
		{ "JavaThread", "_thread_state", &ret->state },
		{ "JavaThread", "_threadObj", &ret->java_object },
		{ "JavaThread", "_vthread", &ret->virtual_thread },
		{ "ThreadsList", "_length", &ret->list_length },
		{ "ThreadsList", "_threads", &ret->list_threads },
		{ "ThreadsSMRSupport", "_java_thread_list", NULL },
	};
	const struct vm_field *const *table = resolve_in(path, "gHotSpotVMStructs");
	const struct vm_field *at = table ? *table : NULL;

	for (; at && at->type && at->name; at++)
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (strcmp(at->type, wanted[i].type) != 0 ||
			    strcmp(at->name, wanted[i].name) != 0)
				continue;
			if (wanted[i].offset)
				*wanted[i].offset = at->offset;
			else
				ret->list = (uintptr_t)at->address;
		}
}

/* Returns the JVM of this process, or NULL. Stores in *RET_ENV the environment of the calling
 * thread, or NULL if it is not attached. Ignores a JVM that has not started or has ended. */
static object find_vm(created_vms_fn *created, object *ret_env)
{
	object vm = NULL;
	int count = 0;

	*ret_env = NULL;
	if (created(&vm, 1, &count) != 0 || count != 1)
		return NULL;
	if (CALL(vm, VM_GET_ENV, get_env_fn *, ret_env, JNI_VERSION) != 0)
		*ret_env = NULL;
	return vm;
}

static bool find(const char *path)
{
	struct java_fields found = { 0 };
	created_vms_fn *created = (created_vms_fn *)resolve_in(path, "JNI_GetCreatedJavaVMs");
	object vm, env;

	find_fields(path, &found);
	if (!created || !found.state) {
		leave_alone("it is not HotSpot, and gpuleak reads frames of no other JVM");
		return false;
	}
	fields = found;
	atomic_store(&created_vms, created);
	vm = find_vm(created, &env);
	if (vm)
		count_calls(vm, env);
	return true;
}

/* ---- preparing ---- */

static void delete_ref(object env, reference local)
{
	if (local)
		CALL(env, JNI_DELETE_LOCAL_REF, void (*)(object, reference), local);
}

/* Returns the address of the calling thread's object in the JVM, or 0. Each thread of Java has it
 * in a field; a virtual thread has 0 there. */
static int64_t thread_object(object env, object jvmti)
{
	reference thread = NULL, class;
	void *field;
	int64_t ret = 0;

	if (CALL(jvmti, JVMTI_GET_CURRENT_THREAD, int (*)(object, reference *), &thread) != 0)
		return 0;
	class = CALL(env, JNI_GET_OBJECT_CLASS, reference (*)(object, reference), thread);
	field = CALL(env, JNI_GET_FIELD_ID,
		     void *(*)(object, reference, const char *, const char *), class, "eetop", "J");
	if (field)
		ret = CALL(env, JNI_GET_LONG_FIELD, int64_t (*)(object, reference, void *), thread,
			   field);
	else
		((void (*)(object))env->functions[JNI_EXCEPTION_CLEAR])(env);
	delete_ref(env, class);
	delete_ref(env, thread);
	return ret;
}

/* Gets JVMTI. Returns false if that must not be done now, or the JVM still starts. */
static bool get_jvmti(object vm)
{
	if (!jvm.jvmti && lock_attaching() &&
	    CALL(vm, VM_GET_ENV, get_env_fn *, &jvm.jvmti, JVMTI_VERSION) != 0)
		jvm.jvmti = NULL;
	unlock_attaching();
	return jvm.jvmti != NULL;
}

/* Returns false if this thread can't prepare the JVM now: then another one tries it, or the thread
 * at its next call. */
static bool prepare(object vm, object env)
{
	int64_t distance;

	if (((unsigned char (*)(object))env->functions[JNI_EXCEPTION_CHECK])(env) || !get_jvmti(vm))
		return false;
	distance = (int64_t)(uintptr_t)env - thread_object(env, jvm.jvmti);
	if (distance <= 0 || distance > THREAD_BYTES_MAX)
		return false;
	CALL(jvm.jvmti, JVMTI_ADD_CAPABILITIES, int (*)(object, const uint32_t *), capabilities);
	jvm.vm = vm;
	jvm.state_from_env = (int64_t)fields.state - distance;
	return true;
}

/* Returns true if the JVM is prepared for calls of this recorder. */
static bool is_ready(const struct recorder *recorder, object vm, object env)
{
	for (int tries = 0; tries < 2 && atomic_load(&step) != 2; tries++) {
		int unready = 0;

		if (atomic_compare_exchange_strong(&step, &unready, 1)) {
			if (!jvm.generation)
				jvm.generation = recorder->generation;
			unready = jvm.generation == recorder->generation && prepare(vm, env);
			atomic_store(&step, unready ? 2 : 0);
		}
		wait_while(&step, 1);
	}
	return atomic_load(&step) == 2 && jvm.vm == vm && jvm.generation == recorder->generation;
}

/* ---- names ---- */

static void deallocate(void *memory)
{
	if (memory)
		CALL(jvm.jvmti, JVMTI_DEALLOCATE, int (*)(object, void *), memory);
}

/* Writes the name of the class with SIGNATURE ("Lcom/app/Main$Inner;") to RET as "com.app.Main".
 * Leaves out what HotSpot appends to the name of a hidden class, since it differs in each run. */
static void write_class(const char *signature, char *ret, size_t size)
{
	const char *end = strstr(signature, "$$Lambda");
	size_t length = strlen(signature);

	if (end)
		length = (size_t)(end - signature) + strlen("$$Lambda");
	else if ((end = strpbrk(signature, "+.")))
		length = (size_t)(end - signature);
	else if (length && signature[length - 1] == ';')
		length--;
	if (length >= size)
		length = size - 1;
	memcpy(ret, signature, length);
	ret[length] = '\0';
	for (char *at = ret; (at = strchr(at, '/'));)
		*at = '.';
}

static uint32_t line_of(const struct chain_frame *frame)
{
	struct line_number *table = NULL;
	uint32_t ret = 0;
	int count = 0;

	if (frame->at < 0 ||
	    CALL(jvm.jvmti, JVMTI_GET_LINE_NUMBER_TABLE,
		 int (*)(object, method, int *, struct line_number **), (method)frame->code, &count,
		 &table) != 0)
		return 0;
	for (int i = 0, last = -1; i < count; i++) {
		/* The table has no order. */
		if (table[i].start > frame->at ||
		    (last >= 0 && table[i].start < table[last].start))
			continue;
		last = i;
		ret = (uint32_t)table[i].line;
	}
	deallocate(table);
	return ret;
}

/* Locking: the caller must not hold a lock while the JVM is called. Returns the ref of the
 * method FOUND. */
static uint32_t method_ref(struct recorder *recorder, object env, method found)
{
	char *name = NULL, *signature = NULL, *file = NULL, text[NAME_MAX_BYTES];
	reference class = NULL;
	uint32_t ret;

	CALL(jvm.jvmti, JVMTI_GET_METHOD_NAME, int (*)(object, method, char **, char **, char **),
	     found, &name, NULL, NULL);
	if (CALL(jvm.jvmti, JVMTI_GET_METHOD_DECLARING_CLASS,
		 int (*)(object, method, reference *), found, &class) == 0) {
		CALL(jvm.jvmti, JVMTI_GET_CLASS_SIGNATURE,
		     int (*)(object, reference, char **, char **), class, &signature, NULL);
		CALL(jvm.jvmti, JVMTI_GET_SOURCE_FILE_NAME, int (*)(object, reference, char **),
		     class, &file);
	}
	delete_ref(env, class);
	write_class(signature && *signature ? signature + 1 : "", text, sizeof(text));
	snprintf(text + strlen(text), sizeof(text) - strlen(text), ".%s", name ? name : "?");
	ret = python_add_code(recorder, text, file ? file : "");
	deallocate(name);
	deallocate(signature);
	deallocate(file);
	return ret;
}

/* ---- frames ---- */

/* A JVM that ends refuses calls. */
static bool read_frames(const struct recorder *recorder, struct chain *ret)
{
	object vm, env;
	int count = 0;

	vm = find_vm(atomic_load(&created_vms), &env);
	if (!vm || !env)
		return false;
	count_calls(vm, env);
	if (thread_self.java_critical) {
		leave_alone("a thread was in a critical region of JNI, where it must not be "
			    "called");
		return false;
	}
	if (!is_ready(recorder, vm, env) ||
	    *(volatile int *)((char *)env + jvm.state_from_env) != STATE_IN_NATIVE)
		return false;
	if (CALL(jvm.jvmti, JVMTI_GET_STACK_TRACE,
		 int (*)(object, reference, int, int, struct chain_frame *, int *), NULL, 0,
		 (int)recorder->stack_depth + 1, ret->frames, &count) != 0)
		return false;
	for (int i = 0; i < count; i++)
		chain_add(ret, ret->frames[i].code, ret->frames[i].at, NULL);
	ret->thread = env;
	return true;
}

static uint32_t name(struct recorder *recorder, const struct chain *chain, unsigned int i,
		     uint32_t *ret_line)
{
	*ret_line = line_of(&chain->frames[i]);
	return method_ref(recorder, chain->thread, (method)chain->frames[i].code);
}

const struct interpreter interpreter_java = {
	.language = LEDGER_PYTHON_JAVA,
	.library = "libjvm.so",
	.find = find,
	.read = read_frames,
	.name = name,
};
