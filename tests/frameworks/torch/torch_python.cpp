/* SPDX-License-Identifier: MIT
 *
 * Stand-in for libtorch_python.so: tensors that have memory and an autograd graph, but no numbers.
 * A tensor's memory is a storage, which views share. An operation allocates its result; while
 * gradients are recorded, the result's node keeps the storages that its backward needs, and the
 * nodes of its inputs. backward() runs on a thread of its own, which has no Python frame.
 */
#define Py_LIMITED_API 0x030a0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "c10.h"

namespace allocator = c10::cuda::CUDACachingAllocator;

namespace at
{
/* The numbers of the storages on a device that are live, while a script is traced. */
struct Trace {
	std::mutex mutex;
	std::set<unsigned long long> live;
	unsigned long long last = 0;
	std::atomic<bool> on{ false };
};
thread_local void *current_stream;
Trace *const trace = new Trace; /* never destroyed: see the allocator */

/* DEVICE -1 is the CPU, whose memory nobody looks at. */
struct Storage {
	Storage(std::size_t size, int where) : bytes(size), device(where)
	{
		if (bytes && device >= 0)
			ptr = allocator::raw_alloc(bytes, device, current_stream);
		if (ptr && trace->on) {
			std::lock_guard<std::mutex> lock(trace->mutex);

			number = ++trace->last;
			trace->live.insert(number);
		}
	}
	~Storage()
	{
		if (number) {
			std::lock_guard<std::mutex> lock(trace->mutex);

			trace->live.erase(number);
		}
		if (ptr)
			allocator::raw_delete(ptr);
	}
	Storage(const Storage &) = delete;

	void *ptr = nullptr;
	std::size_t bytes;
	int device;
	unsigned long long number = 0; /* for the trace */
};

using storage = std::shared_ptr<Storage>;

__attribute__((noinline)) storage empty(std::size_t bytes, int device)
{
	return std::make_shared<Storage>(bytes, device);
}

/* What an engine is given and returns. */
struct Tensor {
	storage memory;
};
} // namespace at

namespace at::cuda
{
/* The workspace of cuBLAS: allocated by the first call, and never freed. */
__attribute__((noinline)) void getCurrentCUDABlasHandle()
{
	static const storage *const workspace = new storage(empty(8u << 20, 0));

	static_cast<void>(workspace);
}
} // namespace at::cuda

namespace torch::autograd
{
struct Variable;

/* How one tensor was made. */
struct Node {
	const char *name = "AccumulateGrad";
	PyObject *object = nullptr; /* the Python object of this node, if it lives */
	bool released = false; /* by a backward */
	std::vector<at::storage> saved;
	std::vector<std::shared_ptr<Node>> next;
	std::weak_ptr<Variable> leaf; /* whose gradient this node accumulates */
	std::size_t bytes = 0;
	int device = -1;
};

struct Variable {
	at::storage memory;
	std::vector<long long> shape;
	std::size_t itemsize = 4;
	bool requires_grad = false;
	std::shared_ptr<Node> node;
	std::shared_ptr<Variable> grad;
};

using variable = std::shared_ptr<Variable>;

struct Edge {
	std::shared_ptr<Node> function;
};

struct GraphTask;

/* Runs the nodes of a graph on one thread, as PyTorch's engine does for each device. The two
 * exported functions have PyTorch's names, and are called through the PLT. */
class Engine
{
      public:
	Engine()
	{
		std::thread([this] { thread_main(nullptr); }).detach();
	}

	std::vector<at::Tensor> execute(const std::vector<Edge> &roots,
					const std::vector<at::Tensor> &inputs, bool keep,
					bool create_graph, bool accumulate_grad,
					const std::vector<Edge> &outputs);
	void thread_main(const std::shared_ptr<GraphTask> &task);

      private:

	/* GRADIENT is that of the node's output. */
	void evaluate_function(const std::shared_ptr<Node> &node, at::storage gradient)
	{
		if (auto leaf = node->leaf.lock()) {
			accumulate(leaf.get(), gradient);
			return;
		}
		for (auto &next : node->next)
			if (next->leaf.lock() || visited.insert(next.get()).second)
				evaluate_function(next, at::empty(next->bytes, next->device));
		if (!keep_graph) {
			node->saved.clear();
			node->next.clear();
			node->released = true;
		}
	}

	void accumulate(Variable *leaf, const at::storage &gradient)
	{
		if (leaf->grad)
			return;
		leaf->grad = std::make_shared<Variable>();
		leaf->grad->memory = gradient;
		leaf->grad->shape = leaf->shape;
		leaf->grad->itemsize = leaf->itemsize;
	}

	std::mutex mutex;
	std::condition_variable turn;
	std::shared_ptr<Node> work;
	bool done = false, keep_graph = false;
	std::set<Node *> visited;
	std::string failed;
};

__attribute__((noinline)) std::vector<at::Tensor>
Engine::execute(const std::vector<Edge> &roots, const std::vector<at::Tensor> &inputs, bool keep,
		bool create_graph, bool accumulate_grad, const std::vector<Edge> &outputs)
{
	std::unique_lock<std::mutex> lock(mutex);

	if (roots.size() != 1 || create_graph || !accumulate_grad || !outputs.empty())
		throw std::invalid_argument("the arguments are not those of the call");
	turn.wait(lock, [this] { return !work; });
	work = roots[0].function;
	keep_graph = keep;
	turn.notify_all();
	turn.wait(lock, [this] { return done; });
	done = false;
	work = nullptr;
	const std::string what = failed;

	failed.clear();
	turn.notify_all();
	if (!what.empty())
		throw c10::OutOfMemoryError(what);
	return inputs;
}

__attribute__((noinline)) void Engine::thread_main(const std::shared_ptr<GraphTask> &)
{
	std::unique_lock<std::mutex> lock(mutex);

	for (;;) {
		turn.wait(lock, [this] { return work && !done; });
		lock.unlock();
		try {
			visited.clear();
			evaluate_function(work, at::empty(work->bytes, work->device));
		} catch (c10::OutOfMemoryError &error) {
			failed = error.what();
		}
		lock.lock();
		done = true;
		turn.notify_all();
	}
}

thread_local bool recording = true; /* of gradients */
} // namespace torch::autograd

using torch::autograd::Node;
using torch::autograd::Variable;
using torch::autograd::variable;

namespace
{
struct tensor {
	PyObject_HEAD variable *self;
};

struct node_wrapper {
	PyObject_HEAD std::shared_ptr<Node> *node;
};

PyTypeObject *tensor_type, *node_type;
PyObject *out_of_memory;
PyObject *tracer; /* called after each allocation, with the number of the storage */

void call_tracer(unsigned long long number)
{
	PyObject *result = tracer ? PyObject_CallFunction(tracer, "K", number) : nullptr;

	if (tracer && !result)
		PyErr_WriteUnraisable(tracer);
	Py_XDECREF(result);
}

variable of(PyObject *object)
{
	return *reinterpret_cast<tensor *>(object)->self;
}

bool is_tensor(PyObject *object)
{
	return PyObject_TypeCheck(object, tensor_type);
}

PyObject *wrapped(const variable &value)
{
	auto *object = reinterpret_cast<tensor *>(PyType_GenericAlloc(tensor_type, 0));

	if (object)
		object->self = new variable(value);
	return reinterpret_cast<PyObject *>(object);
}

/* Returns the Python object of NODE: the same one as long as it lives. */
PyObject *node_object(const std::shared_ptr<Node> &node)
{
	if (node->object) {
		Py_INCREF(node->object);
		return node->object;
	}
	auto *object = reinterpret_cast<node_wrapper *>(PyType_GenericAlloc(node_type, 0));

	if (object)
		object->node = new std::shared_ptr<Node>(node);
	node->object = reinterpret_cast<PyObject *>(object);
	return node->object;
}

std::size_t count(const std::vector<long long> &shape)
{
	std::size_t product = 1;

	for (long long size : shape)
		product *= static_cast<std::size_t>(size);
	return product;
}

/* Lets other Python threads run while it lives. */
struct without_gil {
	PyThreadState *state = PyEval_SaveThread();

	~without_gil()
	{
		PyEval_RestoreThread(state);
	}
};

/* Allocates, or sets a Python exception and returns an empty pointer. */
at::storage allocated(std::size_t bytes, int device)
{
	at::storage memory;
	std::string failed;

	try {
		const without_gil here;

		memory = at::empty(bytes, device);
	} catch (c10::OutOfMemoryError &error) {
		failed = error.what();
	}
	if (!failed.empty())
		PyErr_SetString(out_of_memory, failed.c_str());
	else if (memory->number)
		call_tracer(memory->number);
	return memory;
}

/* Returns the node of VALUE, which for a leaf is the one that accumulates its gradient. */
std::shared_ptr<Node> node_of(const variable &value)
{
	if (!value->node && value->requires_grad) {
		value->node = std::make_shared<Node>();
		value->node->leaf = value;
		value->node->bytes = value->memory->bytes;
		value->node->device = value->memory->device;
	}
	return value->node;
}

/* Makes a tensor of SHAPE from INPUTS. SAVED are the storages that its backward needs. NAME is that
 * of the node. */
PyObject *made(const char *name, const std::vector<long long> &shape,
	       const std::vector<variable> &inputs, std::vector<at::storage> saved,
	       bool save_result = false)
{
	auto result = std::make_shared<Variable>();

	result->shape = shape;
	result->itemsize = inputs[0]->itemsize;
	result->memory = allocated(count(shape) * result->itemsize, inputs[0]->memory->device);
	if (!result->memory)
		return nullptr;
	if (torch::autograd::recording) {
		auto node = std::make_shared<Node>();

		for (auto &input : inputs)
			if (auto next = node_of(input))
				node->next.push_back(next);
		if (!node->next.empty()) {
			if (save_result)
				saved.push_back(result->memory);
			node->name = name;
			node->saved = std::move(saved);
			node->bytes = result->memory->bytes;
			node->device = result->memory->device;
			result->node = node;
			result->requires_grad = true;
		}
	}
	return wrapped(result);
}

/* Makes a tensor that shares VALUE's storage. */
PyObject *viewed(const variable &value, const std::vector<long long> &shape, bool with_graph)
{
	auto result = std::make_shared<Variable>(*value);

	result->shape = shape;
	result->grad = nullptr;
	if (with_graph) {
		result->node = node_of(value);
	} else {
		result->node = nullptr;
		result->requires_grad = false;
	}
	return wrapped(result);
}

/* ---- what Python passes ---- */

/* Returns the sizes in ARGS, which are numbers or one sequence of numbers. */
bool parse_shape(PyObject *args, std::vector<long long> *ret_shape)
{
	PyObject *sizes = args;

	if (PyTuple_Size(args) == 1 && !PyLong_Check(PyTuple_GetItem(args, 0)))
		sizes = PyTuple_GetItem(args, 0);
	const Py_ssize_t length = PySequence_Size(sizes);

	for (Py_ssize_t i = 0; i < length; i++) {
		PyObject *item = PySequence_GetItem(sizes, i);
		const long long size = item ? PyLong_AsLongLong(item) : -1;

		Py_XDECREF(item);
		if (PyErr_Occurred())
			return false;
		ret_shape->push_back(size);
	}
	return length >= 0;
}

/* "cuda", "cuda:1", "cpu", a number, or None for the CPU. */
bool parse_device(PyObject *device, int *ret_device)
{
	*ret_device = -1;
	if (!device || device == Py_None)
		return true;
	if (PyLong_Check(device)) {
		*ret_device = static_cast<int>(PyLong_AsLong(device));
		return true;
	}
	const char *name = PyUnicode_AsUTF8AndSize(device, nullptr);

	if (!name)
		return false;
	if (std::strncmp(name, "cuda", 4) == 0)
		*ret_device = name[4] == ':' ? std::atoi(name + 5) : 0;
	return true;
}

/* The keyword arguments of the functions that make tensors: dtype, device, requires_grad. */
struct made_with {
	int device = -1;
	std::size_t itemsize = 4;
	bool requires_grad = false;
};

bool parse_keywords(PyObject *keywords, made_with *ret_with)
{
	PyObject *value;

	if (!keywords)
		return true;
	if (!parse_device(PyDict_GetItemString(keywords, "device"), &ret_with->device))
		return false;
	value = PyDict_GetItemString(keywords, "requires_grad");
	ret_with->requires_grad = value && PyObject_IsTrue(value);
	value = PyDict_GetItemString(keywords, "dtype");
	if (value && value != Py_None) {
		PyObject *size = PyObject_GetAttrString(value, "itemsize");

		if (!size)
			return false;
		ret_with->itemsize = PyLong_AsSize_t(size);
		Py_DECREF(size);
	}
	return !PyErr_Occurred();
}

PyObject *made_new(const std::vector<long long> &shape, const made_with &with)
{
	auto value = std::make_shared<Variable>();

	value->shape = shape;
	value->itemsize = with.itemsize;
	value->requires_grad = with.requires_grad;
	value->memory = allocated(count(shape) * with.itemsize, with.device);
	return value->memory ? wrapped(value) : nullptr;
}

/* ---- functions ---- */

PyObject *torch_empty(PyObject *, PyObject *args, PyObject *keywords)
{
	std::vector<long long> shape;
	made_with with;

	if (!parse_shape(args, &shape) || !parse_keywords(keywords, &with))
		return nullptr;
	return made_new(shape, with);
}

PyObject *torch_empty_like(PyObject *, PyObject *args, PyObject *keywords)
{
	PyObject *like = PyTuple_GetItem(args, 0);
	made_with with;

	if (!like || !is_tensor(like))
		return PyErr_Format(PyExc_TypeError, "not a tensor");
	with.device = of(like)->memory->device;
	with.itemsize = of(like)->itemsize;
	if (!parse_keywords(keywords, &with))
		return nullptr;
	return made_new(of(like)->shape, with);
}

/* Returns the tensors of a list or tuple; empty, with an exception set, if there is none. */
std::vector<variable> tensors_of(PyObject *list)
{
	std::vector<variable> tensors;
	const Py_ssize_t length = PySequence_Size(list);

	for (Py_ssize_t i = 0; i < length; i++) {
		PyObject *item = PySequence_GetItem(list, i);

		if (item && is_tensor(item))
			tensors.push_back(of(item));
		Py_XDECREF(item);
	}
	if (tensors.empty())
		PyErr_SetString(PyExc_TypeError, "no tensors");
	return tensors;
}

/* The arguments after the first are not looked at: everything is joined along one dimension. */
PyObject *joined(PyObject *args, bool new_dimension)
{
	PyObject *list = PyTuple_GetItem(args, 0);
	const std::vector<variable> tensors = list ? tensors_of(list) : std::vector<variable>();
	long long dimension = 0;

	if (tensors.empty())
		return nullptr;
	if (PyTuple_Size(args) > 1)
		dimension = PyLong_AsLongLong(PyTuple_GetItem(args, 1));
	std::vector<long long> shape = tensors[0]->shape;

	if (new_dimension) {
		shape.insert(shape.begin(), static_cast<long long>(tensors.size()));
	} else {
		const auto at = static_cast<std::size_t>(
			dimension < 0 ? dimension + static_cast<long long>(shape.size())
				      : dimension);

		shape.at(at) = 0;
		for (auto &part : tensors)
			shape[at] += part->shape.at(at);
	}
	return made(new_dimension ? "StackBackward0" : "CatBackward0", shape, tensors, {});
}

PyObject *torch_cat(PyObject *, PyObject *args)
{
	return joined(args, false);
}

PyObject *torch_stack(PyObject *, PyObject *args)
{
	return joined(args, true);
}

PyObject *set_grad_enabled(PyObject *, PyObject *on)
{
	const bool was = torch::autograd::recording;

	torch::autograd::recording = PyObject_IsTrue(on);
	return PyBool_FromLong(was);
}

/* ---- methods ---- */

/* Returns what the backward of a product needs: each factor, if the other one has a gradient. */
std::vector<at::storage> factors(const variable &a, const variable &b)
{
	std::vector<at::storage> saved;

	if (b->requires_grad)
		saved.push_back(a->memory);
	if (a->requires_grad)
		saved.push_back(b->memory);
	return saved;
}

PyObject *binary(PyObject *left, PyObject *right, bool save)
{
	PyObject *first = is_tensor(left) ? left : right;
	PyObject *second = is_tensor(left) ? right : left;

	if (!is_tensor(second))
		return made(save ? "MulBackward0" : "AddBackward0", of(first)->shape,
			    { of(first) }, {});
	const variable a = of(first), b = of(second);

	return made(save ? "MulBackward0" : "AddBackward0",
		    count(a->shape) >= count(b->shape) ? a->shape : b->shape, { a, b },
		    save ? factors(a, b) : std::vector<at::storage>());
}

PyObject *tensor_add(PyObject *left, PyObject *right)
{
	return binary(left, right, false);
}

PyObject *tensor_multiply(PyObject *left, PyObject *right)
{
	return binary(left, right, true);
}

PyObject *tensor_matmul(PyObject *left, PyObject *right)
{
	if (!is_tensor(left) || !is_tensor(right))
		Py_RETURN_NOTIMPLEMENTED;
	const variable a = of(left), b = of(right);
	std::vector<long long> shape = a->shape;

	if (a->shape.empty() || b->shape.size() < 2 || a->shape.back() != b->shape.end()[-2])
		return PyErr_Format(PyExc_RuntimeError, "shapes cannot be multiplied");
	shape.back() = b->shape.back();
	return made("MmBackward0", shape, { a, b }, factors(a, b));
}

PyObject *tensor_relu(PyObject *self, PyObject *)
{
	return made("ReluBackward0", of(self)->shape, { of(self) }, {}, true);
}

/* sum() and mean() of all elements, or over the dimension that is given. */
PyObject *tensor_sum(PyObject *self, PyObject *args)
{
	std::vector<long long> shape;

	if (PyTuple_Size(args) > 0) {
		long long dimension = PyLong_AsLongLong(PyTuple_GetItem(args, 0));

		shape = of(self)->shape;
		if (dimension < 0)
			dimension += static_cast<long long>(shape.size());
		shape.erase(shape.begin() + dimension);
	}
	return made("SumBackward0", shape, { of(self) }, {});
}

PyObject *tensor_clone(PyObject *self, PyObject *)
{
	return made("CloneBackward0", of(self)->shape, { of(self) }, {});
}

PyObject *tensor_view(PyObject *self, PyObject *args)
{
	std::vector<long long> shape;
	long long others = 1;

	if (!parse_shape(args, &shape))
		return nullptr;
	for (long long size : shape)
		others *= size < 0 ? 1 : size;
	for (long long &size : shape)
		if (size < 0)
			size = static_cast<long long>(count(of(self)->shape)) / others;
	return viewed(of(self), shape, true);
}

PyObject *tensor_t(PyObject *self, PyObject *)
{
	std::vector<long long> shape = of(self)->shape;

	if (shape.size() >= 2)
		std::swap(shape.end()[-1], shape.end()[-2]);
	return viewed(of(self), shape, true);
}

PyObject *tensor_detach(PyObject *self, PyObject *)
{
	return viewed(of(self), of(self)->shape, false);
}

/* A number takes away the first dimension, a slice shortens it. */
PyObject *tensor_getitem(PyObject *self, PyObject *key)
{
	std::vector<long long> shape = of(self)->shape;

	if (shape.empty())
		return PyErr_Format(PyExc_IndexError, "a tensor of no dimension");
	if (PyLong_Check(key)) {
		if (PyLong_AsLongLong(key) >= shape[0])
			return PyErr_Format(PyExc_IndexError, "out of range");
		shape.erase(shape.begin());
	} else if (PySlice_Check(key)) {
		Py_ssize_t start, stop, step;

		if (PySlice_Unpack(key, &start, &stop, &step) < 0)
			return nullptr;
		shape[0] = PySlice_AdjustIndices(static_cast<Py_ssize_t>(shape[0]), &start, &stop,
						 step);
	} else {
		return PyErr_Format(PyExc_TypeError, "not a number or a slice");
	}
	return viewed(of(self), shape, true);
}

Py_ssize_t tensor_length(PyObject *self)
{
	return of(self)->shape.empty() ? 0 : static_cast<Py_ssize_t>(of(self)->shape[0]);
}

/* Copies to DEVICE; a tensor that is there already is itself. */
PyObject *copied(PyObject *self, int device)
{
	made_with with;

	if (of(self)->memory->device == device) {
		Py_INCREF(self);
		return self;
	}
	with.device = device;
	with.itemsize = of(self)->itemsize;
	with.requires_grad = of(self)->requires_grad && !of(self)->node;
	return made_new(of(self)->shape, with);
}

PyObject *tensor_to(PyObject *self, PyObject *args, PyObject *)
{
	int device;

	if (PyTuple_Size(args) < 1 || !parse_device(PyTuple_GetItem(args, 0), &device))
		return nullptr;
	return copied(self, device);
}

PyObject *tensor_cuda(PyObject *self, PyObject *)
{
	return copied(self, 0);
}

PyObject *tensor_cpu(PyObject *self, PyObject *)
{
	return copied(self, -1);
}

PyObject *tensor_item(PyObject *, PyObject *)
{
	return PyFloat_FromDouble(0.5);
}

/* Changes the numbers, which this tensor does not have. */
PyObject *tensor_in_place(PyObject *self, PyObject *)
{
	Py_INCREF(self);
	return self;
}

PyObject *tensor_requires_grad(PyObject *self, PyObject *)
{
	of(self)->requires_grad = true;
	Py_INCREF(self);
	return self;
}

PyObject *tensor_record_stream(PyObject *self, PyObject *stream)
{
	allocator::recordStream(of(self)->memory->ptr, PyLong_AsVoidPtr(stream));
	Py_RETURN_NONE;
}

PyObject *tensor_backward(PyObject *self, PyObject *, PyObject *keywords)
{
	/* Never destroyed: its thread waits while the process exits. */
	static auto *const engine = new torch::autograd::Engine;
	PyObject *keep = keywords ? PyDict_GetItemString(keywords, "retain_graph") : nullptr;
	const bool keep_graph = keep && PyObject_IsTrue(keep);
	std::string failed;
	auto node = of(self)->node;

	if (!node)
		return PyErr_Format(PyExc_RuntimeError, "element 0 does not require grad");
	try {
		const without_gil here;

		const std::vector<at::Tensor> inputs(3, { of(self)->memory });
		const auto results = engine->execute({ { node } }, inputs, keep_graph, false, true,
						     {});

		if (results.size() != 3 || results[2].memory != inputs[2].memory)
			throw c10::OutOfMemoryError("execute() returned another result");
	} catch (c10::OutOfMemoryError &error) {
		failed = error.what();
	}
	if (!failed.empty())
		return PyErr_Format(out_of_memory, "%s", failed.c_str());
	call_tracer(0);
	Py_RETURN_NONE;
}

/* ---- attributes ---- */

PyObject *get_shape(PyObject *self, void *)
{
	const auto &shape = of(self)->shape;
	PyObject *result = PyTuple_New(static_cast<Py_ssize_t>(shape.size()));

	for (std::size_t i = 0; result && i < shape.size(); i++)
		PyTuple_SetItem(result, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(shape[i]));
	return result;
}

PyObject *get_nbytes(PyObject *self, void *)
{
	return PyLong_FromSize_t(count(of(self)->shape) * of(self)->itemsize);
}

PyObject *get_is_cuda(PyObject *self, void *)
{
	return PyBool_FromLong(of(self)->memory->device >= 0);
}

PyObject *get_requires_grad(PyObject *self, void *)
{
	return PyBool_FromLong(of(self)->requires_grad);
}

PyObject *get_is_leaf(PyObject *self, void *)
{
	return PyBool_FromLong(!of(self)->node || of(self)->node->leaf.lock());
}

PyObject *get_grad_fn(PyObject *self, void *)
{
	if (!of(self)->node || of(self)->node->leaf.lock())
		Py_RETURN_NONE;
	return node_object(of(self)->node);
}

PyObject *get_grad(PyObject *self, void *)
{
	if (!of(self)->grad)
		Py_RETURN_NONE;
	return wrapped(of(self)->grad);
}

int set_grad(PyObject *self, PyObject *value, void *)
{
	of(self)->grad = value && is_tensor(value) ? of(value) : nullptr;
	return 0;
}

PyObject *tensor_data_ptr(PyObject *self, PyObject *)
{
	return PyLong_FromVoidPtr(of(self)->memory->ptr);
}

PyObject *tensor_numel(PyObject *self, PyObject *)
{
	return PyLong_FromSize_t(count(of(self)->shape));
}

PyObject *tensor_size(PyObject *self, PyObject *args)
{
	PyObject *shape = get_shape(self, nullptr), *size;

	if (!shape || PyTuple_Size(args) == 0)
		return shape;
	size = PySequence_GetItem(shape, PyLong_AsSsize_t(PyTuple_GetItem(args, 0)));
	Py_DECREF(shape);
	return size;
}

int tensor_traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	return 0;
}

void tensor_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	auto free_object = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
	variable *self = reinterpret_cast<tensor *>(object)->self;

	PyObject_GC_UnTrack(object);
	delete self;
	free_object(object);
	Py_DECREF(type);
}

/* ---- nodes of the graph, as Python sees them ---- */

/* What _saved_self and so on return: a new tensor on the saved storage. */
PyObject *saved_tensor(const Node &node, std::size_t at)
{
	auto value = std::make_shared<Variable>();

	if (node.released)
		return PyErr_Format(PyExc_RuntimeError,
				    "Trying to backward through the graph a second time");
	if (at >= node.saved.size())
		Py_RETURN_NONE;
	value->memory = node.saved[at];
	value->itemsize = 1;
	value->shape = { static_cast<long long>(value->memory->bytes) };
	return wrapped(value);
}

/* PyTorch's: pairs of a node and the number of its input. */
PyObject *next_functions(const Node &node)
{
	PyObject *result = PyTuple_New(static_cast<Py_ssize_t>(node.next.size()));

	for (std::size_t i = 0; result && i < node.next.size(); i++)
		PyTuple_SetItem(result, static_cast<Py_ssize_t>(i),
				Py_BuildValue("(Ni)", node_object(node.next[i]), 0));
	return result;
}

PyObject *node_saved(PyObject *object, void *number)
{
	return saved_tensor(**reinterpret_cast<node_wrapper *>(object)->node,
			    reinterpret_cast<std::uintptr_t>(number));
}

PyObject *node_next(PyObject *object, void *)
{
	return next_functions(**reinterpret_cast<node_wrapper *>(object)->node);
}

PyObject *node_variable(PyObject *object, void *)
{
	auto leaf = (*reinterpret_cast<node_wrapper *>(object)->node)->leaf.lock();

	if (!leaf)
		Py_RETURN_NONE;
	return wrapped(leaf);
}

PyObject *node_name(PyObject *object, PyObject *)
{
	return PyUnicode_FromString((*reinterpret_cast<node_wrapper *>(object)->node)->name);
}

void node_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	auto free_object = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
	std::shared_ptr<Node> *node = reinterpret_cast<node_wrapper *>(object)->node;

	(*node)->object = nullptr;
	delete node;
	free_object(object);
	Py_DECREF(type);
}

/* PyTorch has a type for each kind of node, with an attribute for each saved tensor. */
PyGetSetDef node_attributes[] = {
	{ "next_functions", node_next, nullptr, nullptr, nullptr },
	{ "variable", node_variable, nullptr, nullptr, nullptr },
	{ "_saved_self", node_saved, nullptr, nullptr, nullptr },
	{ "_saved_other", node_saved, nullptr, nullptr, reinterpret_cast<void *>(1) },
	{ nullptr, nullptr, nullptr, nullptr, nullptr },
};

PyMethodDef node_methods[] = {
	{ "name", node_name, METH_NOARGS, nullptr },
	{ nullptr, nullptr, 0, nullptr },
};

PyObject *blas_handle(PyObject *, PyObject *)
{
	at::cuda::getCurrentCUDABlasHandle();
	Py_RETURN_NONE;
}

/* _hold(object): native code refers to a Python object, as PyTorch does to that of a tensor which a
 * graph saved. */
PyObject *hold(PyObject *, PyObject *object)
{
	Py_INCREF(object);
	Py_RETURN_NONE;
}

/* _keep(tensor): native code keeps its memory from now on, as an extension may. */
PyObject *keep(PyObject *, PyObject *object)
{
	static std::vector<variable> kept;

	kept.push_back(of(object));
	Py_RETURN_NONE;
}

/* ---- the caching allocator and the profiler, as Python sees them ---- */

PyObject *counts_of(const std::vector<std::pair<const char *, unsigned long long>> &counts)
{
	PyObject *result = PyDict_New();

	for (auto &[name, value] : counts) {
		PyObject *number = PyLong_FromUnsignedLongLong(value);

		PyDict_SetItemString(result, name, number);
		Py_DECREF(number);
	}
	return result;
}

PyObject *memory_counts(PyObject *, PyObject *device)
{
	const allocator::Stats now =
		allocator::getDeviceStats(static_cast<int>(PyLong_AsLong(device)));

	return counts_of({ { "allocated_bytes", now.allocated_bytes },
			   { "reserved_bytes", now.reserved_bytes },
			   { "active_bytes", now.active_bytes },
			   { "peak_bytes", now.peak_bytes },
			   { "allocations", now.allocations },
			   { "segments", now.segments },
			   { "ooms", now.ooms },
			   { "sum", now.sum } });
}

PyObject *memory_snapshot(PyObject *, PyObject *)
{
	PyObject *ret = PyList_New(0);

	for (const allocator::Segment &segment : allocator::snapshot()) {
		PyObject *one = Py_BuildValue(
			"{s:K, s:n, s:K, s:(ii)}", "address",
			reinterpret_cast<unsigned long long>(segment.address), "total_size",
			static_cast<Py_ssize_t>(segment.bytes), "stream",
			reinterpret_cast<unsigned long long>(segment.stream), "segment_pool_id",
			segment.pool, 0);

		PyList_Append(ret, one);
		Py_DECREF(one);
	}
	return ret;
}

PyObject *set_stream(PyObject *, PyObject *stream)
{
	at::current_stream = PyLong_AsVoidPtr(stream);
	Py_RETURN_NONE;
}

PyObject *profiler_seen(PyObject *, PyObject *device)
{
	standin_seen seen;

	standin_profiler_seen(static_cast<int>(PyLong_AsLong(device)), &seen);
	return counts_of(
		{ { "calls", seen.calls },
		  { "ooms", seen.outs_of_memory },
		  { "contradictions", seen.contradictions },
		  { "live_blocks", seen.live_blocks },
		  { "live_bytes", seen.live_bytes },
		  { "sum", seen.sum },
		  { "last_ptr", reinterpret_cast<std::uintptr_t>(seen.last.ptr) },
		  { "last_alloc_size", static_cast<unsigned long long>(seen.last.alloc_size) },
		  { "last_total_allocated", seen.last.total_allocated },
		  { "last_total_reserved", seen.last.total_reserved },
		  { "last_type", static_cast<unsigned long long>(seen.last.type) },
		  { "last_index", static_cast<unsigned long long>(seen.last.index) } });
}

PyObject *profile(PyObject *, PyObject *on)
{
	standin_profile(PyObject_IsTrue(on));
	Py_RETURN_NONE;
}

PyObject *empty_cache(PyObject *, PyObject *)
{
	{
		const without_gil here;

		allocator::emptyCache();
	}
	Py_RETURN_NONE;
}

PyObject *begin_pool(PyObject *, PyObject *id)
{
	allocator::beginAllocateToPool(0, static_cast<int>(PyLong_AsLong(id)));
	Py_RETURN_NONE;
}

PyObject *end_pool(PyObject *, PyObject *)
{
	allocator::endAllocateToPool(0);
	Py_RETURN_NONE;
}

PyObject *release_pool(PyObject *, PyObject *id)
{
	allocator::releasePool(0, static_cast<int>(PyLong_AsLong(id)));
	Py_RETURN_NONE;
}

/* report(address, bytes, total_allocated, total_reserved, type, index): any call, for tests of
 * what is not expected. */
PyObject *report(PyObject *, PyObject *args)
{
	unsigned long long address, allocated_bytes, reserved;
	long long bytes;
	int type, index;

	if (!PyArg_ParseTuple(args, "KLKKii", &address, &bytes, &allocated_bytes, &reserved, &type,
			      &index))
		return nullptr;
	const c10::Device device = { static_cast<c10::DeviceType>(type),
				     static_cast<std::int8_t>(index) };
	void *const ptr = reinterpret_cast<void *>(address);

#if STANDIN_SHAPE == 3
	c10::reportMemoryUsageToProfiler(ptr, bytes, allocated_bytes, reserved, device, 0);
#else
	c10::reportMemoryUsageToProfiler(ptr, bytes, static_cast<c10::total_bytes>(allocated_bytes),
					 static_cast<c10::total_bytes>(reserved), device);
#endif
	Py_RETURN_NONE;
}

/* report_out_of_memory(bytes, total_allocated, total_reserved, type, index): likewise. */
PyObject *report_out_of_memory(PyObject *, PyObject *args)
{
	unsigned long long allocated_bytes, reserved;
	long long bytes;
	int type, index;

	if (!PyArg_ParseTuple(args, "LKKii", &bytes, &allocated_bytes, &reserved, &type, &index))
		return nullptr;
	const c10::Device device = { static_cast<c10::DeviceType>(type),
				     static_cast<std::int8_t>(index) };

#if STANDIN_SHAPE == 3
	c10::reportOutOfMemoryToProfiler(bytes, allocated_bytes, reserved, device, 0);
#else
	c10::reportOutOfMemoryToProfiler(bytes, static_cast<c10::total_bytes>(allocated_bytes),
					 static_cast<c10::total_bytes>(reserved), device);
#endif
	Py_RETURN_NONE;
}

/* Allocates and frees at random; what is left at the end is freed. */
void storm(unsigned int seed, int operations)
{
	std::vector<at::storage> live;
	std::minstd_rand random(seed + 1);

	for (int i = 0; i < operations; i++) {
		const unsigned int draw = random();

		if (live.size() > 60 || (!live.empty() && draw % 5 < 2)) {
			live[draw % live.size()].swap(live.back());
			live.pop_back();
			continue;
		}
		const std::size_t limit = draw % 64 == 0 ? 24u << 20
					  : draw % 8	 ? 64u << 10
							 : 3u << 20;

		live.push_back(at::empty(random() % limit + 1, 0));
		if (draw % 11 == 0)
			allocator::recordStream(live.back()->ptr, reinterpret_cast<void *>(1));
		if (draw % 997 == 0)
			allocator::emptyCache();
	}
}

/* _storm(threads, operations): without the GIL, so that the threads meet in the allocator. */
PyObject *storms(PyObject *, PyObject *args)
{
	std::vector<std::thread> threads;
	int count, operations;

	if (!PyArg_ParseTuple(args, "ii", &count, &operations))
		return nullptr;
	{
		const without_gil here;

		for (int i = 0; i < count; i++)
			threads.emplace_back(storm, static_cast<unsigned int>(i), operations);
		for (auto &thread : threads)
			thread.join();
	}
	Py_RETURN_NONE;
}

/* _trace(function): calls FUNCTION after each allocation; with 0 after each backward. */
PyObject *set_trace(PyObject *, PyObject *function)
{
	Py_INCREF(function);
	tracer = function;
	at::trace->on = true;
	Py_RETURN_NONE;
}

/* _live(): the numbers of the live storages. */
PyObject *live(PyObject *, PyObject *)
{
	std::vector<unsigned long long> numbers;
	{
		std::lock_guard<std::mutex> lock(at::trace->mutex);

		numbers.assign(at::trace->live.begin(), at::trace->live.end());
	}
	PyObject *result = PyTuple_New(static_cast<Py_ssize_t>(numbers.size()));

	for (std::size_t i = 0; result && i < numbers.size(); i++)
		PyTuple_SetItem(result, static_cast<Py_ssize_t>(i),
				PyLong_FromUnsignedLongLong(numbers[i]));
	return result;
}

/* _pairs(times, bytes): allocates and frees, and returns the nanoseconds of one pair. */
PyObject *pairs(PyObject *, PyObject *args)
{
	unsigned long long bytes;
	int times;

	if (!PyArg_ParseTuple(args, "iK", &times, &bytes))
		return nullptr;
	const auto start = std::chrono::steady_clock::now();

	for (int i = 0; i < times; i++)
		allocator::raw_delete(allocator::raw_alloc(bytes, 0, nullptr));
	const std::chrono::duration<double, std::nano> took =
		std::chrono::steady_clock::now() - start;

	return PyFloat_FromDouble(took.count() / times);
}

#define WITH_KEYWORDS(function) \
	reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function))

PyMethodDef tensor_methods[] = {
	{ "backward", WITH_KEYWORDS(tensor_backward), METH_VARARGS | METH_KEYWORDS, nullptr },
	{ "clone", tensor_clone, METH_NOARGS, nullptr },
	{ "exp", tensor_relu, METH_NOARGS, nullptr },
	{ "relu", tensor_relu, METH_NOARGS, nullptr },
	{ "sum", tensor_sum, METH_VARARGS, nullptr },
	{ "mean", tensor_sum, METH_VARARGS, nullptr },
	{ "view", tensor_view, METH_VARARGS, nullptr },
	{ "reshape", tensor_view, METH_VARARGS, nullptr },
	{ "t", tensor_t, METH_NOARGS, nullptr },
	{ "detach", tensor_detach, METH_NOARGS, nullptr },
	{ "to", WITH_KEYWORDS(tensor_to), METH_VARARGS | METH_KEYWORDS, nullptr },
	{ "cuda", tensor_cuda, METH_NOARGS, nullptr },
	{ "cpu", tensor_cpu, METH_NOARGS, nullptr },
	{ "item", tensor_item, METH_NOARGS, nullptr },
	{ "add_", tensor_in_place, METH_VARARGS, nullptr },
	{ "mul_", tensor_in_place, METH_VARARGS, nullptr },
	{ "copy_", tensor_in_place, METH_VARARGS, nullptr },
	{ "zero_", tensor_in_place, METH_VARARGS, nullptr },
	{ "requires_grad_", tensor_requires_grad, METH_VARARGS, nullptr },
	{ "_record_stream", tensor_record_stream, METH_O, nullptr },
	{ "data_ptr", tensor_data_ptr, METH_NOARGS, nullptr },
	{ "numel", tensor_numel, METH_NOARGS, nullptr },
	{ "size", tensor_size, METH_VARARGS, nullptr },
	{ nullptr, nullptr, 0, nullptr },
};

PyGetSetDef tensor_attributes[] = {
	{ "shape", get_shape, nullptr, nullptr, nullptr },
	{ "nbytes", get_nbytes, nullptr, nullptr, nullptr },
	{ "is_cuda", get_is_cuda, nullptr, nullptr, nullptr },
	{ "requires_grad", get_requires_grad, nullptr, nullptr, nullptr },
	{ "grad", get_grad, set_grad, nullptr, nullptr },
	{ "is_leaf", get_is_leaf, nullptr, nullptr, nullptr },
	{ "grad_fn", get_grad_fn, nullptr, nullptr, nullptr },
	{ nullptr, nullptr, nullptr, nullptr, nullptr },
};

PyType_Slot tensor_slots[] = {
	{ Py_tp_dealloc, reinterpret_cast<void *>(tensor_dealloc) },
	{ Py_tp_traverse, reinterpret_cast<void *>(tensor_traverse) },
	{ Py_tp_methods, tensor_methods },
	{ Py_tp_getset, tensor_attributes },
	{ Py_nb_add, reinterpret_cast<void *>(tensor_add) },
	{ Py_nb_subtract, reinterpret_cast<void *>(tensor_add) },
	{ Py_nb_multiply, reinterpret_cast<void *>(tensor_multiply) },
	{ Py_nb_true_divide, reinterpret_cast<void *>(tensor_multiply) },
	{ Py_nb_matrix_multiply, reinterpret_cast<void *>(tensor_matmul) },
	{ Py_mp_subscript, reinterpret_cast<void *>(tensor_getitem) },
	{ Py_mp_length, reinterpret_cast<void *>(tensor_length) },
	{ 0, nullptr },
};

PyType_Spec tensor_spec = { "torch.Tensor", sizeof(tensor), 0,
			    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
				    Py_TPFLAGS_DISALLOW_INSTANTIATION,
			    tensor_slots };

PyType_Slot node_slots[] = {
	{ Py_tp_dealloc, reinterpret_cast<void *>(node_dealloc) },
	{ Py_tp_getset, node_attributes },
	{ Py_tp_methods, node_methods },
	{ 0, nullptr },
};

PyType_Spec node_spec = { "torch.autograd.Node", sizeof(node_wrapper), 0,
			  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots };

PyMethodDef functions[] = {
	{ "empty", WITH_KEYWORDS(torch_empty), METH_VARARGS | METH_KEYWORDS, nullptr },
	{ "empty_like", WITH_KEYWORDS(torch_empty_like), METH_VARARGS | METH_KEYWORDS, nullptr },
	{ "cat", torch_cat, METH_VARARGS, nullptr },
	{ "stack", torch_stack, METH_VARARGS, nullptr },
	{ "set_grad_enabled", set_grad_enabled, METH_O, nullptr },
	{ "memory_counts", memory_counts, METH_O, nullptr },
	{ "memory_snapshot", memory_snapshot, METH_NOARGS, nullptr },
	{ "set_stream", set_stream, METH_O, nullptr },
	{ "profiler_seen", profiler_seen, METH_O, nullptr },
	{ "profile", profile, METH_O, nullptr },
	{ "empty_cache", empty_cache, METH_NOARGS, nullptr },
	{ "begin_pool", begin_pool, METH_O, nullptr },
	{ "end_pool", end_pool, METH_NOARGS, nullptr },
	{ "release_pool", release_pool, METH_O, nullptr },
	{ "_storm", storms, METH_VARARGS, nullptr },
	{ "_trace", set_trace, METH_O, nullptr },
	{ "_live", live, METH_NOARGS, nullptr },
	{ "_pairs", pairs, METH_VARARGS, nullptr },
	{ "report", report, METH_VARARGS, nullptr },
	{ "report_out_of_memory", report_out_of_memory, METH_VARARGS, nullptr },
	{ "_blas_handle", blas_handle, METH_NOARGS, nullptr },
	{ "_hold", hold, METH_O, nullptr },
	{ "_keep", keep, METH_O, nullptr },
	{ nullptr, nullptr, 0, nullptr },
};

PyModuleDef definition = { PyModuleDef_HEAD_INIT,
			   "torch._C",
			   nullptr,
			   -1,
			   functions,
			   nullptr,
			   nullptr,
			   nullptr,
			   nullptr };
} // namespace

PyMODINIT_FUNC PyInit__C(void)
{
	PyObject *module = PyModule_Create(&definition);

	tensor_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&tensor_spec));
	node_type = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&node_spec));
	out_of_memory = PyErr_NewException("torch.OutOfMemoryError", PyExc_RuntimeError, nullptr);
	if (!module || !tensor_type || !node_type || !out_of_memory ||
	    PyModule_AddObjectRef(module, "Tensor", reinterpret_cast<PyObject *>(tensor_type)) <
		    0 ||
	    PyModule_AddObjectRef(module, "OutOfMemoryError", out_of_memory) < 0)
		return nullptr;
	return module;
}
