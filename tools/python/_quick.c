/* _quick.c - weft._quick, the short way of a collective: in the limited API of Python 3.9.
 *
 * What most calls are, an array of numpy's and no option, goes to the library from here, and so does the wait for it.
 * Whatever is unusual is left to the modules in Python, the long way, which know what to say.  Everything here runs
 * with the GIL held, but for the calls of the library that take their time. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>
#include <weft/weft.h>

enum {
    /* A wait goes back to Python so often that Ctrl-C and close() are seen: as _SLICE_MS of request.py. */
    SLICE_MS = 20,
    /* Bits of numpy's PyArrayInterface.flags. */
    C_CONTIGUOUS = 0x1,
    NATIVE_ORDER = 0x200,
    WRITEABLE = 0x400
};

/* What __array_struct__ holds: https://numpy.org/doc/stable/reference/arrays.interface.html */
typedef struct {
    int two;
    int nd;
    char typekind;
    int itemsize;
    int flags;
    intptr_t *shape;
    intptr_t *strides;
    void *data;
    PyObject *descr;
} array_interface;

/* Base of weft.Context: what the short way must know of it. */
typedef struct {
    PyObject ob_base;
    PyObject *watcher;  /* weft.watcher.Watcher */
    PyObject *watched;  /* its dict: not empty while somebody is to be told of what has settled */
    PyObject *forsaken; /* a list of (address of a request, what it needs): those that nobody has any more */
    Py_ssize_t inside;  /* threads that wait in the library by the short way */
    char closed;
    char closing;
} job;

/* Base of weft.Request. */
typedef struct {
    PyObject ob_base;
    weft_request *handle; /* NULL: it joined a batch that has not ended, or is given back */
    job *context;
    PyObject *result;
    PyObject *keep;  /* what the library reads and writes, until it has settled */
    PyObject *error; /* once it has settled: what it failed with */
    PyObject *owner; /* the request of the batch that it is part of, whose handle it has */
    char settled;
} flight;

/* What weft's modules in Python have told, once they were imported: see prepare and know_arrays. */
static struct {
    PyTypeObject *job_type;
    PyTypeObject *request_type;
    PyTypeObject *array_type; /* numpy.ndarray, once an array of numpy's was seen */
    PyObject *check;          /* raises what the library's last call failed with */
    PyObject *reductions;     /* a dict: number by name */
    PyObject *codes;          /* a dict: weft_dtype by numpy's dtype */
    PyObject *given_back;     /* a dict: not empty while somebody holds memory that mem_free has taken back */
    PyObject *dtype;          /* the one that was seen last, and its number */
    weft_dtype code;
    PyObject *dtype_name;
    PyObject *interface_name;
} known;

/* The elements of an array that go to the library as they are. */
typedef struct {
    char *data;
    size_t count;
    size_t bytes;
    weft_dtype dtype;
    bool writable;
} elements;

static bool is_none(PyObject *object)
{
    return !object || object == Py_None;
}

/* ---- arrays ------------------------------------------------------------------------------------------------ */

/* Whether Weft has numpy's type, which the long way has seen before then. */
static bool find_dtype(PyObject *dtype, weft_dtype *found)
{
    if (dtype != known.dtype) {
        PyObject *code = PyDict_GetItemWithError(known.codes, dtype);
        if (!code) return false;
        known.code = (weft_dtype)PyLong_AsLong(code);
        Py_INCREF(dtype);
        Py_XDECREF(known.dtype);
        known.dtype = dtype;
    }
    *found = known.code;
    return true;
}

static bool read_interface(PyObject *capsule, elements *found)
{
    const array_interface *told = PyCapsule_GetPointer(capsule, NULL);
    if (!told || told->two != 2 ||
        (told->flags & (C_CONTIGUOUS | NATIVE_ORDER)) != (C_CONTIGUOUS | NATIVE_ORDER))
        return false;
    found->data = told->data;
    found->count = 1;
    for (int i = 0; i < told->nd; i++) found->count *= (size_t)told->shape[i];
    found->bytes = found->count * (size_t)told->itemsize;
    found->writable = told->flags & WRITEABLE;
    return found->count > 0;
}

/* False: it is for the long way to say what the matter is, if anything. */
static bool look_at(PyObject *array, elements *found)
{
    if (Py_TYPE(array) != known.array_type) return false;
    PyObject *dtype = PyObject_GetAttr(array, known.dtype_name);
    bool fits = dtype && find_dtype(dtype, &found->dtype);
    Py_XDECREF(dtype);
    if (fits) {
        PyObject *capsule = PyObject_GetAttr(array, known.interface_name);
        fits = capsule && read_interface(capsule, found);
        Py_XDECREF(capsule);
    }
    if (!fits) PyErr_Clear();
    return fits;
}

/* As arrays.expect_alike, expect_count and expect_apart. */
static bool go_together(const elements *array, const elements *out)
{
    if (array->dtype != out->dtype || array->count != out->count) return false;
    uintptr_t a = (uintptr_t)array->data, o = (uintptr_t)out->data;
    return a == o || a + array->bytes <= o || o + out->bytes <= a;
}

/* ---- Job --------------------------------------------------------------------------------------------------- */

static int job_traverse(PyObject *object, visitproc visit, void *arg)
{
    job *self = (job *)object;
    Py_VISIT((PyObject *)Py_TYPE(object));
    Py_VISIT(self->watcher);
    Py_VISIT(self->watched);
    Py_VISIT(self->forsaken);
    return 0;
}

static int job_clear(PyObject *object)
{
    job *self = (job *)object;
    Py_CLEAR(self->watcher);
    Py_CLEAR(self->watched);
    Py_CLEAR(self->forsaken);
    return 0;
}

/* Gives back an object of a class that is made at run time, and its part in that class. */
static void free_object(PyObject *object, inquiry clear)
{
    PyTypeObject *type = Py_TYPE(object);
    freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
    PyObject_GC_UnTrack(object);
    clear(object);
    give_back(object);
    Py_DECREF((PyObject *)type);
}

static void job_dealloc(PyObject *object)
{
    free_object(object, job_clear);
}

static PyMemberDef job_members[] = {
    {"_watcher", T_OBJECT_EX, offsetof(job, watcher), 0, NULL},
    {"_watched", T_OBJECT_EX, offsetof(job, watched), 0, NULL},
    {"_forsaken", T_OBJECT_EX, offsetof(job, forsaken), 0, NULL},
    {"_inside", T_PYSSIZET, offsetof(job, inside), READONLY, NULL},
    {"_closed", T_BOOL, offsetof(job, closed), 0, NULL},
    {"_closing", T_BOOL, offsetof(job, closing), 0, NULL},
    {0},
};

static PyType_Slot job_slots[] = {
    {Py_tp_doc, "What the short way knows of a job."},
    {Py_tp_traverse, job_traverse},
    {Py_tp_clear, job_clear},
    {Py_tp_dealloc, job_dealloc},
    {Py_tp_members, job_members},
    {0},
};

static PyType_Spec job_spec = {"weft._quick.Job", sizeof(job), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, job_slots};

/* Whether nothing is to be done or said that only the long way does or says. */
static bool is_plain(const job *context)
{
    return !context->closed && !context->closing && context->watched && context->forsaken &&
           PyDict_Size(context->watched) == 0 && PyList_Size(context->forsaken) == 0;
}

/* ---- Flight ------------------------------------------------------------------------------------------------- */

static int flight_traverse(PyObject *object, visitproc visit, void *arg)
{
    flight *self = (flight *)object;
    Py_VISIT((PyObject *)Py_TYPE(object));
    Py_VISIT((PyObject *)self->context);
    Py_VISIT(self->result);
    Py_VISIT(self->keep);
    Py_VISIT(self->error);
    Py_VISIT(self->owner);
    return 0;
}

static int flight_clear(PyObject *object)
{
    flight *self = (flight *)object;
    Py_CLEAR(self->context);
    Py_CLEAR(self->result);
    Py_CLEAR(self->keep);
    Py_CLEAR(self->error);
    Py_CLEAR(self->owner);
    return 0;
}

static void flight_dealloc(PyObject *object)
{
    free_object(object, flight_clear);
}

/* Nobody has it any more and it goes on: the next submission finds it.  Without memory for that, what the library
 * writes is never given back. */
static void forsake(flight *self, weft_request *handle)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *left = Py_BuildValue("(NO)", PyLong_FromVoidPtr(handle), self->keep ? self->keep : Py_None);
    if (!left || !self->context->forsaken || PyList_Append(self->context->forsaken, left) < 0) {
        Py_XINCREF(self->keep);
        PyErr_Clear();
    }
    Py_XDECREF(left);
    PyErr_Restore(type, value, trace);
}

/* Nobody waits here any more, or this would not run: so it is safe to give the handle back.  It may run at any moment
 * on any thread, so what cannot be given back yet is left. */
static void flight_finalize(PyObject *object)
{
    flight *self = (flight *)object;
    weft_request *handle = self->handle;
    if (!handle || !is_none(self->owner) || !self->context || self->context->closed) return;
    self->handle = NULL;
    if (self->settled || weft_is_completed(handle))
        weft_release(handle);
    else
        forsake(self, handle);
}

static int flight_init(PyObject *object, PyObject *args, PyObject *names)
{
    flight *self = (flight *)object;
    PyObject *context, *address, *result, *keep, *owner;
    if (names || self->context) {
        PyErr_SetString(PyExc_TypeError, "a request is made once, and by places");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "O!OOOO", known.job_type, &context, &address, &result, &keep, &owner))
        return -1;
    self->handle = PyLong_AsVoidPtr(address);
    if (!self->handle && PyErr_Occurred()) return -1;
    Py_INCREF(context);
    Py_INCREF(result);
    Py_INCREF(keep);
    Py_INCREF(owner);
    self->context = (job *)context;
    self->result = result;
    self->keep = keep;
    self->owner = owner;
    return 0;
}

/* From here on the arrays are the caller's again. */
static void settle_well(flight *self)
{
    self->settled = true;
    Py_CLEAR(self->keep);
}

/* flight._finish(): waits for a moment.  True: it has settled, and well.  False: the long way says what is. */
static PyObject *flight_finish(PyObject *object, PyObject *unused)
{
    flight *self = (flight *)object;
    job *context = self->context;
    (void)unused;
    if (self->settled) return PyBool_FromLong(is_none(self->error));
    if (!self->handle || !context || !is_plain(context)) Py_RETURN_FALSE;
    weft_request *handle = self->handle;
    context->inside++;
    PyThreadState *thread = PyEval_SaveThread();
    weft_status status = weft_wait(handle, SLICE_MS);
    PyEval_RestoreThread(thread);
    context->inside--;
    if (PyDict_Size(context->watched) > 0) { /* who came meanwhile waits for what this wait may have hidden */
        PyObject *looked = PyObject_CallMethod(context->watcher, "look", NULL);
        if (!looked) return NULL;
        Py_DECREF(looked);
    }
    if (status != WEFT_OK) Py_RETURN_FALSE;
    settle_well(self);
    Py_RETURN_TRUE;
}

/* flight._is_completed(), of one that has a handle */
static PyObject *flight_is_completed(PyObject *object, PyObject *unused)
{
    weft_request *handle = ((flight *)object)->handle;
    (void)unused;
    PyThreadState *thread = PyEval_SaveThread();
    bool completed = weft_is_completed(handle);
    PyEval_RestoreThread(thread);
    return PyBool_FromLong(completed);
}

static PyObject *flight_get_address(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((flight *)object)->handle);
}

static int flight_set_address(PyObject *object, PyObject *address, void *unused)
{
    (void)unused;
    void *handle = address ? PyLong_AsVoidPtr(address) : NULL;
    if (!handle && PyErr_Occurred()) return -1;
    ((flight *)object)->handle = handle;
    return 0;
}

static PyMemberDef flight_members[] = {
    {"_context", T_OBJECT_EX, offsetof(flight, context), READONLY, NULL},
    {"_result", T_OBJECT, offsetof(flight, result), 0, NULL},
    {"_keep", T_OBJECT, offsetof(flight, keep), 0, NULL},
    {"_error", T_OBJECT, offsetof(flight, error), 0, NULL},
    {"_owner", T_OBJECT, offsetof(flight, owner), 0, NULL},
    {"_settled", T_BOOL, offsetof(flight, settled), 0, NULL},
    {0},
};

static PyGetSetDef flight_properties[] = {
    {"_address", flight_get_address, flight_set_address, NULL, NULL},
    {0},
};

static PyMethodDef flight_methods[] = {
    {"_finish", flight_finish, METH_NOARGS, NULL},
    {"_is_completed", flight_is_completed, METH_NOARGS, NULL},
    {0},
};

static PyType_Slot flight_slots[] = {
    {Py_tp_doc, "What the short way knows of a request."},
    {Py_tp_init, flight_init},
    {Py_tp_traverse, flight_traverse},
    {Py_tp_clear, flight_clear},
    {Py_tp_finalize, flight_finalize},
    {Py_tp_dealloc, flight_dealloc},
    {Py_tp_members, flight_members},
    {Py_tp_getset, flight_properties},
    {Py_tp_methods, flight_methods},
    {0},
};

static PyType_Spec flight_spec = {"weft._quick.Flight", sizeof(flight), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  flight_slots};

/* A weft.Request that has everything but a handle. */
static flight *make_request(PyObject *context, PyObject *result, PyObject *keep)
{
    flight *made = (flight *)PyType_GenericAlloc(known.request_type, 0);
    if (!made) return NULL;
    Py_INCREF(context);
    Py_INCREF(result);
    Py_INCREF(keep);
    made->context = (job *)context;
    made->result = result;
    made->keep = keep;
    return made;
}

/* ---- submitting --------------------------------------------------------------------------------------------- */

/* Raises what the library has refused. */
static void raise_refused(weft_status status)
{
    PyObject *none = PyObject_CallFunction(known.check, "i", (int)status);
    Py_XDECREF(none);
}

/* What all arguments of an all_reduce come to. */
typedef struct {
    PyObject *group;
    PyObject *context;
    PyObject *array;
    PyObject *out; /* array itself: in place */
    weft_group *handle;
    elements from;
    elements to;
    weft_op op;
} reduction;

/* False: this is for the long way. */
static bool understand(PyObject *args, reduction *wanted)
{
    PyObject *own_out = PyTuple_GetItem(args, 4);
    wanted->group = PyTuple_GetItem(args, 0);
    wanted->context = PyTuple_GetItem(args, 1);
    wanted->array = PyTuple_GetItem(args, 3);
    wanted->out = own_out == Py_None ? wanted->array : own_out;
    if (!known.array_type || PyDict_Size(known.given_back) > 0) return false;
    if (!PyObject_TypeCheck(wanted->context, known.job_type) || !is_plain((job *)wanted->context))
        return false;
    PyObject *op = PyDict_GetItemWithError(known.reductions, PyTuple_GetItem(args, 5));
    wanted->handle = PyLong_AsVoidPtr(PyTuple_GetItem(args, 2));
    if (!op || !wanted->handle) {
        PyErr_Clear();
        return false;
    }
    wanted->op = (weft_op)PyLong_AsLong(op);
    if (!look_at(wanted->array, &wanted->from)) return false;
    wanted->to = wanted->from;
    if (wanted->out != wanted->array && !look_at(wanted->out, &wanted->to)) return false;
    return wanted->to.writable && go_together(&wanted->from, &wanted->to);
}

/* _quick.all_reduce(group, context, address, array, out, op): a weft.Request; None: this is for the long way. */
static PyObject *all_reduce(PyObject *module, PyObject *args)
{
    reduction wanted;
    weft_request *handle = NULL;
    (void)module;
    if (PyTuple_Size(args) != 6) return PyErr_Format(PyExc_TypeError, "all_reduce takes 6 arguments");
    if (!understand(args, &wanted)) Py_RETURN_NONE;
    PyObject *keep = PyTuple_Pack(3, wanted.array, wanted.out, wanted.group);
    flight *made = keep ? make_request(wanted.context, wanted.out, keep) : NULL;
    Py_XDECREF(keep);
    if (!made) return NULL;
    PyThreadState *thread = PyEval_SaveThread();
    weft_status status = weft_all_reduce(wanted.handle, wanted.from.data, wanted.to.data, wanted.from.count,
                                         wanted.from.dtype, wanted.op, NULL, &handle);
    PyEval_RestoreThread(thread);
    made->handle = handle;
    if (status == WEFT_OK) return (PyObject *)made;
    raise_refused(status);
    Py_DECREF((PyObject *)made);
    return NULL;
}

/* ---- the module --------------------------------------------------------------------------------------------- */

/* _quick.prepare(Request, check, reductions, codes, given_back) */
static PyObject *prepare(PyObject *module, PyObject *args)
{
    PyObject *request_type, *check, *reductions, *codes, *given_back;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OO!O!O!", &PyType_Type, &request_type, &check, &PyDict_Type, &reductions,
                          &PyDict_Type, &codes, &PyDict_Type, &given_back))
        return NULL;
    Py_INCREF(request_type);
    Py_INCREF(check);
    Py_INCREF(reductions);
    Py_INCREF(codes);
    Py_INCREF(given_back);
    known.request_type = (PyTypeObject *)request_type;
    known.check = check;
    known.reductions = reductions;
    known.codes = codes;
    known.given_back = given_back;
    Py_RETURN_NONE;
}

/* _quick.know_arrays(numpy.ndarray) */
static PyObject *know_arrays(PyObject *module, PyObject *type)
{
    (void)module;
    if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "expected numpy's type of arrays");
    Py_INCREF(type);
    Py_XDECREF((PyObject *)known.array_type);
    known.array_type = (PyTypeObject *)type;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"all_reduce", all_reduce, METH_VARARGS, NULL},
    {"prepare", prepare, METH_VARARGS, NULL},
    {"know_arrays", know_arrays, METH_O, NULL},
    {0},
};

static struct PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                        .m_name = "weft._quick",
                                        .m_doc = "The short way of a collective.",
                                        .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit__quick(void)
{
    PyObject *module = PyModule_Create(&definition);
    PyObject *job_type = PyType_FromSpec(&job_spec), *flight_type = PyType_FromSpec(&flight_spec);
    known.job_type = (PyTypeObject *)job_type;
    known.dtype_name = PyUnicode_InternFromString("dtype");
    known.interface_name = PyUnicode_InternFromString("__array_struct__");
    bool made = module && job_type && flight_type && known.dtype_name && known.interface_name;
    Py_XINCREF(job_type); /* one is for known */
    if (made && PyModule_AddObject(module, "Job", job_type) == 0 &&
        PyModule_AddObject(module, "Flight", flight_type) == 0)
        return module;
    Py_XDECREF(module);
    return NULL;
}
