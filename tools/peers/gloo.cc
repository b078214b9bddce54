// gloo.cc - Gloo's driver for tools/compare; see measure.h for its arguments.  RANK, WORLD_SIZE and STORE, an empty
// folder, are in the environment.  Gloo has TCP only, here on INTERFACE or on loopback, and no requests but
// those of messages; its reduce_scatter works in place.
#include "measure.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace {

using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;
using Place = std::pair<const void *, size_t>;

std::shared_ptr<gloo::rendezvous::Context> world;
uint32_t tag = 1; // of the next collective
std::map<Place, Buffer> buffers;
std::vector<std::pair<gloo::transport::UnboundBuffer *, bool>> started; // and whether it sends
uint64_t n_started[2];

// Messages from different places are matched by what they say here, the place in the window.
gloo::transport::UnboundBuffer *buffer(const void *at, size_t count)
{
    Buffer &known = buffers[Place(at, count)];
    if (!known) known = world->createUnboundBuffer(const_cast<void *>(at), count * sizeof(float));
    return known.get();
}

void sum(void *to, const void *a, const void *b, size_t n)
{
    gloo::sum<float>(to, a, b, n);
}

void reduce_scatter(const measure_call *c)
{
    using Algorithm = gloo::ReduceScatterHalvingDoubling<float>;
    static std::unique_ptr<Algorithm> algorithm;
    static Place of;
    if (!algorithm || of != Place(c->out, c->count)) {
        int all = static_cast<int>(c->count) * world->size;
        algorithm.reset(new Algorithm(world, {c->out}, all, std::vector<int>(world->size, static_cast<int>(c->count))));
        of = Place(c->out, c->count);
    }
    algorithm->run();
}

void start(const measure_call *c)
{
    constexpr uint64_t message = 1u << 30; // apart from the collectives' tags
    bool sends = c->action == MEASURE_SEND;
    auto *b = sends ? buffer(c->in, c->count) : buffer(c->out, c->count);
    // The n-th that one rank sends is the n-th that the other receives, whatever goes the other way meanwhile.
    uint64_t slot = message + n_started[sends]++;
    if (sends)
        b->send(c->peer, slot);
    else
        b->recv(c->peer, slot);
    started.emplace_back(b, sends);
}

void finish()
{
    for (auto &s : started) {
        if (s.second)
            s.first->waitSend();
        else
            s.first->waitRecv();
    }
    started.clear();
    n_started[false] = n_started[true] = 0;
}

// What all option types have in common is not a base class there.
template <class Options> Options options()
{
    Options o(world);
    o.setTag(tag++);
    return o;
}

void run(const measure_call *c)
{
    float *in = const_cast<float *>(c->in);
    size_t all = c->count * static_cast<size_t>(world->size);
    switch (c->action) {
    case MEASURE_SEND:
    case MEASURE_RECEIVE:
        start(c);
        finish();
        break;
    case MEASURE_BROADCAST: {
        auto o = options<gloo::BroadcastOptions>();
        o.setOutput(world->rank == c->peer ? in : c->out, c->count);
        o.setRoot(c->peer);
        gloo::broadcast(o);
        break;
    }
    case MEASURE_ALL_REDUCE: {
        auto o = options<gloo::AllreduceOptions>();
        o.setInput(in, c->count);
        o.setOutput(c->out, c->count);
        o.setReduceFunction(sum);
        gloo::allreduce(o);
        break;
    }
    case MEASURE_REDUCE_SCATTER: reduce_scatter(c); break;
    case MEASURE_ALL_GATHER: {
        auto o = options<gloo::AllgatherOptions>();
        o.setInput(in, c->count);
        o.setOutput(c->out, all);
        gloo::allgather(o);
        break;
    }
    case MEASURE_ALL_TO_ALL: {
        auto o = options<gloo::AlltoallOptions>();
        o.setInput(in, all);
        o.setOutput(c->out, all);
        gloo::alltoall(o);
        break;
    }
    default: {
        auto o = options<gloo::BarrierOptions>();
        gloo::barrier(o);
    }
    }
}

void maximum(double *values, int n)
{
    auto o = options<gloo::AllreduceOptions>();
    o.setOutput(values, static_cast<size_t>(n));
    o.setReduceFunction([](void *to, const void *a, const void *b, size_t k) {
        for (size_t i = 0; i < k; i++)
            static_cast<double *>(to)[i] =
                std::max(static_cast<const double *>(a)[i], static_cast<const double *>(b)[i]);
    });
    gloo::allreduce(o);
}

int variable(const char *name)
{
    const char *text = getenv(name);
    if (!text) measure_fail("%s is not set", name);
    return atoi(text);
}

} // namespace

int main(int argc, char **argv)
try {
    measure_begin(argc, argv);
    peer p = {};
    p.rank = variable("RANK");
    p.size = variable("WORLD_SIZE");
    p.in_place = 1u << MEASURE_REDUCE_SCATTER;
    p.blocking = MEASURE_ALL;
    p.request = 1u << MEASURE_SEND | 1u << MEASURE_RECEIVE;
    p.run = run;
    p.start = start;
    p.finish = finish;
    p.maximum = maximum;
    gloo::transport::tcp::attr at;
    at.iface = getenv("INTERFACE") ? getenv("INTERFACE") : "lo";
    auto device = gloo::transport::tcp::CreateDevice(at);
    gloo::rendezvous::FileStore store(getenv("STORE") ? getenv("STORE") : ".");
    world = std::make_shared<gloo::rendezvous::Context>(p.rank, p.size);
    world->connectFullMesh(store, device);
    measure(&p);
    buffers.clear();
    if (measure_phase()[0] != 's') return measure_end(); // its pairs are closed by the end of the process
    world->closeConnections();
    world.reset();
    device.reset();
    return measure_end();
} catch (const std::exception &e) {
    measure_fail("%s", e.what());
}
