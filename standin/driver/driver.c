/* SPDX-License-Identifier: MIT
 *
 * The beginning and end of the stand-in driver: the gate of every call, cuInit, the exit handler,
 * fork, the STANDIN_* variables with fault injection and the log, devices and error names. Owns no
 * context and no memory. After the exit handler every call returns 4.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin/driver/async.h"

_Atomic unsigned int standin_gate = GATE_UNREAD | GATE_CLOSED;
int standin_devices = 1;
enum standin_fake standin_fake;
int standin_version = DRIVER_VERSION;
int standin_arena_limit = 256;
size_t standin_memory = (size_t)16 << 30;

enum { MAX_FAULTS = 64 };

static struct fault {
	char name[64];
	unsigned long first, last; /* the calls that fail, counted from 1 */
	CUresult code;
} faults[MAX_FAULTS];
/* How often a function was called that has an entry in `faults`. A function with several entries
 * is counted at the index of its first one. */
static _Atomic unsigned long fault_calls[MAX_FAULTS];
static int fault_count;
static int log_fd = -1;
static pthread_once_t environment_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

static void complain(const char *what, const char *value)
{
	fprintf(stderr, "standin: %s not understood: %s\n", what, value);
}

/* "name:N=code" or "name:N+=code" */
static bool parse_fault(const char *text, struct fault *f)
{
	int end = 0;

	if (sscanf(text, "%63[^:]:%lu=%d%n", f->name, &f->first, &f->code, &end) == 3) {
		f->last = f->first;
		return !text[end];
	}
	f->last = (unsigned long)-1;
	return sscanf(text, "%63[^:]:%lu+=%d%n", f->name, &f->first, &f->code, &end) == 3 &&
	       !text[end];
}

static void read_fault(const char *text)
{
	if (fault_count < MAX_FAULTS && parse_fault(text, &faults[fault_count]))
		fault_count++;
	else
		complain("STANDIN_FAIL", text);
}

static void read_faults(const char *list)
{
	char *copy = strdup(list), *rest = copy;
	const char *one;

	while (copy && (one = strsep(&rest, ",")))
		if (*one)
			read_fault(one);
	free(copy);
	if (fault_count)
		atomic_fetch_or(&standin_gate, GATE_FAULTS);
}

static size_t read_number(const char *name, size_t least, size_t most, size_t otherwise)
{
	const char *value = getenv(name);
	char *end;
	unsigned long long n;

	if (!value)
		return otherwise;
	errno = 0;
	n = strtoull(value, &end, 0);
	if (errno || *end || end == value || n < least || n > most) {
		complain(name, value);
		return otherwise;
	}
	return (size_t)n;
}

static void read_fake(const char *kernels)
{
	if (!kernels)
		return;
	if (!strcmp(kernels, "refuse"))
		standin_fake = FAKE_REFUSE;
	else if (!strcmp(kernels, "skip"))
		standin_fake = FAKE_SKIP;
	else
		complain("STANDIN_FAKE_GPU", kernels);
}

void standin_report(unsigned int flags)
{
	static _Atomic unsigned int reported;
	ledger_no_gpu_fn *report;
	int saved = errno;

	if (!standin_fake || (atomic_fetch_or(&reported, flags) & flags) == flags)
		return;
	report = (ledger_no_gpu_fn *)dlsym(RTLD_DEFAULT, LEDGER_NO_GPU_CALLBACK);
	if (report)
		report(flags);
	else
		dlerror(); /* the application must not find this message */
	errno = saved;
}

EXPORTED CUresult standin_unable(void)
{
	return standin_fake == FAKE_SKIP ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- what the driver itself takes of a device ---- */

static int64_t costs[COST_KINDS];
static _Atomic int64_t taken[MAX_DEVICES];

void driver_takes(int device, int64_t bytes)
{
	atomic_fetch_add(&taken[device], bytes);
}

int64_t driver_cost(enum cost cost)
{
	return costs[cost];
}

int64_t driver_taken(int device)
{
	return atomic_load(&taken[device]);
}

static void read_costs(const char *list)
{
	long long n[COST_KINDS] = { 0 };

	/* STREAM and KERNEL are optional */
	if (sscanf(list, "%lld,%lld,%lld,%lld,%lld,%lld", &n[0], &n[1], &n[2], &n[3], &n[4],
		   &n[5]) <= COST_THREADS)
		complain("STANDIN_COSTS", list);
	for (int i = 0; i < COST_KINDS; i++)
		costs[i] = n[i];
}

static void read_environment(void)
{
	const char *list = getenv("STANDIN_FAIL"), *log = getenv("STANDIN_LOG");

	standin_devices = (int)read_number("STANDIN_DEVICES", 0, MAX_DEVICES, 1);
	standin_memory = read_number("STANDIN_MEMORY", 1, (size_t)1 << 40, standin_memory);
	standin_version = (int)read_number("STANDIN_VERSION", 2000, DRIVER_VERSION, DRIVER_VERSION);
	read_fake(getenv("STANDIN_FAKE_GPU"));
	if (standin_fake)
		async_begin(0);
	else if (getenv("STANDIN_ASYNC"))
		async_begin(read_number("STANDIN_ASYNC", 0, SIZE_MAX, 0));
	standin_arena_limit = (int)read_number("STANDIN_ARENAS", 1, 256, 256);
	if (list)
		read_faults(list);
	if (getenv("STANDIN_COSTS"))
		read_costs(getenv("STANDIN_COSTS"));
	if (log) {
		log_fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (log_fd < 0)
			complain("STANDIN_LOG", log);
		else
			atomic_fetch_or(&standin_gate, GATE_LOG);
	}
	atomic_fetch_and(&standin_gate, ~(unsigned int)GATE_UNREAD);
}

static CUresult inject_fault(const char *name)
{
	unsigned long call = 0;

	for (int i = 0; i < fault_count; i++) {
		if (strcmp(faults[i].name, name) != 0)
			continue;
		if (!call)
			call = atomic_fetch_add(&fault_calls[i], 1) + 1;
		if (call >= faults[i].first && call <= faults[i].last)
			return faults[i].code;
	}
	return CUDA_SUCCESS;
}

/* Returns true if a host function may make the call NAME. */
static bool is_for_host_functions(const char *name)
{
	static const char *const names[] = {
		"cuInit", "cuDriverGetVersion", "cuMemsetD8Async", "cuMemsetD16Async",
		"cuMemsetD32Async", "cuStreamQuery", "cuStreamDestroy", "cuStreamWaitEvent",
		"cuStreamGetFlags", "cuStreamGetCtx", "cuStreamBeginCapture",
		"cuStreamEndCapture", "cuLaunchHostFunc", "cuStreamAddCallback", "cuEventRecord",
		"cuEventQuery",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		/* also the variants: _v2, _ptsz */
		if (strncmp(name, names[i], length) == 0 && (!name[length] || name[length] == '_'))
			return true;
	}
	return false;
}

/* Returns the result that the call NAME must return at once, or 0. EARLY: the call is allowed
 * before cuInit. */
CUresult standin_gate_slow(const char *name, bool early)
{
	int saved = errno;
	unsigned int state;
	CUresult fault;

	if (atomic_load(&standin_gate) & GATE_UNREAD)
		pthread_once(&environment_once, read_environment);
	errno = saved;
	state = atomic_load(&standin_gate);
	fault = state & GATE_FAULTS ? inject_fault(name) : CUDA_SUCCESS;
	if (fault)
		return fault;
	if (state & GATE_GONE)
		return CUDA_ERROR_DEINITIALIZED;
	if (state & GATE_HOST && standin_thread.in_host_function && !is_for_host_functions(name))
		return ERROR_NOT_PERMITTED;
	if (!early && state & (GATE_CLOSED | GATE_FORKED))
		return CUDA_ERROR_NOT_INITIALIZED;
	return CUDA_SUCCESS;
}

/* Appends one line for a call, PID NAME ADDRESS BYTES RESULT, in one write. */
void standin_log_slow(const char *name, uint64_t address, uint64_t bytes, CUresult result)
{
	int saved = errno;
	char line[160];
	int length;

	if (!(atomic_load(&standin_gate) & GATE_LOG))
		return;
	length = snprintf(line, sizeof(line), "%d %s 0x%llx %llu %d\n", (int)getpid(), name,
			  (unsigned long long)address, (unsigned long long)bytes, result);
	if (write(log_fd, line, (size_t)length) != length)
		complain("STANDIN_LOG", "short write");
	errno = saved;
}

CUresult standin_do_nothing(const char *name)
{
	CUresult r = gate(name);

	return r ? r : context_usable(standin_thread.current);
}

static void driver_exit(void)
{
	atomic_fetch_or(&standin_gate, GATE_GONE);
	async_exit();
}

static void driver_forked(void)
{
	atomic_fetch_or(&standin_gate, GATE_FORKED);
}

/*
 * WSL2's libcuda looks up its own cuInit with dlsym and calls the function that it gets. If a hook
 * returned its wrapper here, the wrapper and the driver would call each other without end. The
 * stand-in detects that and returns 999.
 */
static CUresult look_up_self(void)
{
	static __thread bool inside;
	CUresult (*found)(unsigned int);
	Dl_info self;
	void *handle;
	CUresult r = ERROR_UNKNOWN;

	if (!getenv("STANDIN_SELF_LOOKUP"))
		return CUDA_SUCCESS;
	if (inside || !dladdr((void *)&standin_gate, &self))
		return ERROR_UNKNOWN;
	handle = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	if (!handle)
		return ERROR_UNKNOWN;
	found = (CUresult(*)(unsigned int))dlsym(handle, "cuInit");
	inside = true;
	if (found)
		r = found == cuInit ? CUDA_SUCCESS : found(0);
	inside = false;
	dlclose(handle);
	return r;
}

static CUresult init_once(void)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&init_lock);
	if (atomic_load(&standin_gate) & GATE_CLOSED) {
		heap_init();
		pool_init();
		if (atexit(driver_exit) || pthread_atfork(NULL, NULL, driver_forked))
			r = CUDA_ERROR_OUT_OF_MEMORY;
		else
			atomic_fetch_and(&standin_gate, ~(unsigned int)GATE_CLOSED);
	}
	pthread_mutex_unlock(&init_lock);
	if (!r)
		standin_report(LEDGER_NO_GPU |
			       (standin_fake == FAKE_SKIP ? LEDGER_NO_GPU_FAKE_KERNELS : 0));
	return r;
}

STANDIN(cuInit)(unsigned int Flags)
{
	CUresult r = standin_gate_slow("cuInit", true);

	if (r)
		return r;
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (atomic_load(&standin_gate) & GATE_FORKED)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (atomic_load(&standin_gate) & GATE_CLOSED) {
		r = look_up_self();
		if (r)
			return r;
	}
	return init_once();
}

/* NVIDIA's runtime queries tables of functions that are not documented. */
STANDIN(cuGetExportTable)(const void **ppExportTable, const CUuuid *pExportTableId)
{
	(void)ppExportTable, (void)pExportTableId;
	standin_report(LEDGER_NO_GPU_REAL_RUNTIME);
	return CUDA_ERROR_NOT_SUPPORTED;
}

STANDIN(cuDriverGetVersion)(int *driverVersion)
{
	CUresult r = standin_gate_slow("cuDriverGetVersion", true);

	if (r)
		return r;
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = standin_version;
	return CUDA_SUCCESS;
}

CUresult device_call(const char *name, const void *out, CUdevice dev)
{
	CUresult r = gate(name);

	if (r)
		return r;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	return bad_device(dev) ? ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

STANDIN(cuDeviceGet)(CUdevice *device, int ordinal)
{
	CUresult r = device_call("cuDeviceGet", device, ordinal);

	if (!r)
		*device = ordinal;
	return r;
}

STANDIN(cuDeviceGetCount)(int *count)
{
	CUresult r = gate("cuDeviceGetCount");

	if (r)
		return r;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = standin_devices;
	return CUDA_SUCCESS;
}

STANDIN(cuDeviceGetName)(char *name, int len, CUdevice dev)
{
	CUresult r = device_call("cuDeviceGetName", name, dev);

	if (!r && len <= 0)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		snprintf(name, (size_t)len, "Stand-in GPU %d", dev);
	return r;
}

STANDIN(cuDeviceTotalMem)(unsigned int *bytes, CUdevice dev)
{
	CUresult r = device_call("cuDeviceTotalMem", bytes, dev);

	if (!r)
		*bytes = standin_memory > UINT32_MAX ? UINT32_MAX : (unsigned int)standin_memory;
	return r;
}

STANDIN(cuDeviceTotalMem_v2)(size_t *bytes, CUdevice dev)
{
	CUresult r = device_call("cuDeviceTotalMem_v2", bytes, dev);

	if (!r)
		*bytes = standin_memory;
	return r;
}

STANDIN(cuDeviceGetAttribute)(int *pi, int attrib, CUdevice dev)
{
	/* CU_DEVICE_ATTRIBUTE_* of cuda.h, with the values of an H200 or of compute capability
	 * 9.0 */
	static const int known[160] = {
		[1] = 1024, /* MAX_THREADS_PER_BLOCK */
		[2] = 1024, /* MAX_BLOCK_DIM: X, Y, Z */
		[3] = 1024,
		[4] = 64,
		[5] = 2147483647, /* MAX_GRID_DIM: X, Y, Z */
		[6] = 65535,
		[7] = 65535,
		[8] = 48 << 10,   /* MAX_SHARED_MEMORY_PER_BLOCK */
		[9] = 64 << 10,   /* TOTAL_CONSTANT_MEMORY */
		[10] = 32,        /* WARP_SIZE */
		[11] = 2147483647, /* MAX_PITCH */
		[12] = 65536,     /* MAX_REGISTERS_PER_BLOCK */
		[14] = 512,       /* TEXTURE_ALIGNMENT */
		[15] = 1,         /* GPU_OVERLAP */
		[16] = 132, /* MULTIPROCESSOR_COUNT */
		[19] = 1,   /* CAN_MAP_HOST_MEMORY */
		[21] = 131072, /* MAXIMUM_TEXTURE1D_WIDTH */
		[22] = 131072, /* 2D_WIDTH */
		[23] = 65536,  /* 2D_HEIGHT */
		[24] = 16384,  /* 3D: WIDTH, HEIGHT, DEPTH */
		[25] = 16384,
		[26] = 16384,
		[30] = 512, /* SURFACE_ALIGNMENT */
		[31] = 1,   /* CONCURRENT_KERNELS */
		[39] = 2048, /* MAX_THREADS_PER_MULTIPROCESSOR */
		[40] = 3,   /* ASYNC_ENGINE_COUNT */
		[41] = 1,   /* UNIFIED_ADDRESSING */
		[51] = 32,  /* TEXTURE_PITCH_ALIGNMENT */
		[75] = 9,   /* COMPUTE_CAPABILITY_MAJOR; MINOR is 0 */
		[78] = 1,   /* STREAM_PRIORITIES_SUPPORTED */
		[79] = 1,   /* GLOBAL_L1_CACHE_SUPPORTED, LOCAL */
		[80] = 1,
		[81] = 228 << 10, /* MAX_SHARED_MEMORY_PER_MULTIPROCESSOR */
		[82] = 65536, /* MAX_REGISTERS_PER_MULTIPROCESSOR */
		[83] = 1,   /* MANAGED_MEMORY */
		[89] = 1,   /* CONCURRENT_MANAGED_ACCESS */
		[95] = 1,   /* COOPERATIVE_LAUNCH */
		[97] = 227 << 10, /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
		[99] = 1,   /* HOST_REGISTER_SUPPORTED */
		[102] = 1,  /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
		[106] = 32, /* MAX_BLOCKS_PER_MULTIPROCESSOR */
		[111] = 1 << 10, /* RESERVED_SHARED_MEMORY_PER_BLOCK */
		[115] = 1,  /* MEMORY_POOLS_SUPPORTED */
	};
	CUresult r = device_call("cuDeviceGetAttribute", pi, dev);

	if (!r)
		*pi = attrib > 0 && attrib < 160 ? known[attrib] : 0;
	if (!r && attrib == 18 && getenv("STANDIN_INTEGRATED"))
		*pi = 1;
	return r;
}

static CUresult device_uuid(const char *call, CUuuid *uuid, CUdevice dev)
{
	CUresult r = device_call(call, uuid, dev);

	if (!r) {
		memcpy(uuid->bytes, "standin-gpu-uuid", 16);
		uuid->bytes[15] = (char)dev;
	}
	return r;
}

STANDIN(cuDeviceGetUuid)(CUuuid *uuid, CUdevice dev)
{
	return device_uuid("cuDeviceGetUuid", uuid, dev);
}

STANDIN(cuDeviceGetUuid_v2)(CUuuid *uuid, CUdevice dev)
{
	return device_uuid("cuDeviceGetUuid_v2", uuid, dev);
}

STANDIN(cuDeviceGetPCIBusId)(char *pciBusId, int len, CUdevice dev)
{
	CUresult r = device_call("cuDeviceGetPCIBusId", pciBusId, dev);

	if (!r && len < 13)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", dev + 1);
	return r;
}

/* clang-format off */
static const struct {
	CUresult code;
	const char *name, *text;
} errors[] = {
	{ 0, "CUDA_SUCCESS", "no error" },
	{ 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ 4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ 401, "CUDA_ERROR_ILLEGAL_STATE", "not possible in the present state" },
	{ 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "memory range already mapped" },
	{ 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "memory region not registered" },
	{ 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted" },
	{ 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not permitted when stream is capturing" },
	{ 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "error earlier in this capture" },
	{ 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "capture of another thread" },
	{ 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
};
/* clang-format on */

static CUresult error_words(CUresult error, const char **out, bool want_name)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].code == error)
			*out = want_name ? errors[i].name : errors[i].text;
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

STANDIN(cuGetErrorName)(CUresult error, const char **pStr)
{
	CUresult r = standin_gate_slow("cuGetErrorName", true);

	return r ? r : error_words(error, pStr, true);
}

STANDIN(cuGetErrorString)(CUresult error, const char **pStr)
{
	CUresult r = standin_gate_slow("cuGetErrorString", true);

	return r ? r : error_words(error, pStr, false);
}
