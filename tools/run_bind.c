/* run_bind.c - see run_bind.h. */
#include "run_bind.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_processor(struct run_spot *spot, int processor)
{
    CPU_SET_S((size_t)processor, sizeof(spot->set), (cpu_set_t *)(void *)spot->set);
}

bool run_spot_bind(const struct run_spot *spot)
{
    return !sched_setaffinity(0, sizeof(spot->set), (const cpu_set_t *)(const void *)spot->set);
}

const struct run_spot *run_spots_of(const struct run_spots *spots, int r, int ranks)
{
    if (!spots->n) return NULL;
    if (spots->bind == RUN_BIND_NUMA) return &spots->spot[(long long)r * spots->n / ranks];
    return &spots->spot[r % spots->n];
}

void run_spots_free(struct run_spots *spots)
{
    free(spots->spot);
    *spots = (struct run_spots){.n = 0};
}

static struct run_spot *next_spot(struct run_spots *spots)
{
    struct run_spot *grown = realloc(spots->spot, ((size_t)spots->n + 1) * sizeof(*grown));
    if (!grown) return NULL;
    spots->spot = grown;
    grown[spots->n] = (struct run_spot){.text = ""};
    return &grown[spots->n++];
}

#ifdef WEFT_HWLOC
#include <hwloc.h>

/* The numbers that the system gives to the package and the NUMA node which that lies in; nothing where there are
 * none. */
static void name_place(hwloc_topology_t t, hwloc_obj_t object, char *text, size_t bytes)
{
    hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(t, HWLOC_OBJ_PACKAGE, object), node = NULL;
    size_t used = 0;
    *text = '\0';
    while ((node = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, node)))
        if (hwloc_bitmap_isincluded(object->cpuset, node->cpuset)) break;
    if (node) used = (size_t)snprintf(text, bytes, " of NUMA node %u", node->os_index);
    if (package) snprintf(text + used, bytes - used, ", package %u", package->os_index);
}

/* The processors of an object that are allowed, the first n of them left out; hwloc lists them in its logical order,
 * in which what lies close together in the machine comes together. */
static int nth_processor(hwloc_obj_t object, hwloc_const_cpuset_t allowed, int n)
{
    int processor = -1;
    do {
        processor = hwloc_bitmap_next(object->cpuset, processor);
        if (processor >= 0 && hwloc_bitmap_isset(allowed, (unsigned)processor)) n--;
    } while (processor >= 0 && n >= 0);
    return processor;
}

/* The cores' first processors, then their second ones, and so on. */
static bool find_cores(struct run_spots *spots, hwloc_topology_t t, hwloc_const_cpuset_t allowed)
{
    hwloc_obj_type_t type = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    bool found = true;
    for (int sibling = 0; found; sibling++) {
        hwloc_obj_t core = NULL;
        found = false;
        while ((core = hwloc_get_next_obj_by_type(t, type, core))) {
            int processor = nth_processor(core, allowed, sibling);
            char place[64];
            struct run_spot *spot;
            if (processor < 0 || processor >= RUN_CORES_MAX) continue;
            if (!(spot = next_spot(spots))) return false;
            name_place(t, core, place, sizeof(place));
            add_processor(spot, processor);
            snprintf(spot->text, sizeof(spot->text), "core %u%s: processor %d", core->logical_index, place,
                     processor);
            found = true;
        }
    }
    return true;
}

static bool find_nodes(struct run_spots *spots, hwloc_topology_t t, hwloc_const_cpuset_t allowed)
{
    hwloc_obj_t node = NULL;
    while ((node = hwloc_get_next_obj_by_type(t, HWLOC_OBJ_NUMANODE, node))) {
        struct run_spot *spot = NULL;
        int processor = -1;
        char list[64];
        hwloc_bitmap_t own = hwloc_bitmap_alloc();
        if (!own) return false;
        hwloc_bitmap_and(own, node->cpuset, allowed);
        while ((processor = hwloc_bitmap_next(own, processor)) >= 0 && processor < RUN_CORES_MAX) {
            if (!spot && !(spot = next_spot(spots))) break;
            add_processor(spot, processor);
        }
        hwloc_bitmap_list_snprintf(list, sizeof(list), own);
        hwloc_bitmap_free(own);
        if (spot)
            snprintf(spot->text, sizeof(spot->text), "NUMA node %u: processors %s", node->os_index, list);
    }
    return true;
}

static bool find(struct run_spots *spots, const struct run_cores *cores)
{
    hwloc_topology_t t;
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    bool done = false;
    if (!allowed) return false;
    for (int i = 0; i < cores->n; i++) hwloc_bitmap_set(allowed, (unsigned)cores->core[i]);
    if (!hwloc_topology_init(&t)) {
        if (!hwloc_topology_load(t)) {
            hwloc_bitmap_and(allowed, allowed, hwloc_topology_get_allowed_cpuset(t));
            done =
                spots->bind == RUN_BIND_NUMA ? find_nodes(spots, t, allowed) : find_cores(spots, t, allowed);
        }
        hwloc_topology_destroy(t);
    }
    hwloc_bitmap_free(allowed);
    return done;
}
#else
static bool find(struct run_spots *spots, const struct run_cores *cores)
{
    for (int i = 0; i < cores->n; i++) {
        struct run_spot *spot = next_spot(spots);
        if (!spot) return false;
        add_processor(spot, cores->core[i]);
        snprintf(spot->text, sizeof(spot->text), "processor %d", cores->core[i]);
    }
    return true;
}
#endif

bool run_spots_find(struct run_spots *spots, enum run_bind bind, const struct run_cores *allowed,
                    char *sentence, size_t bytes)
{
    *spots = (struct run_spots){.bind = bind};
    if (bind == RUN_BIND_NONE) return true;
#ifndef WEFT_HWLOC
    if (bind == RUN_BIND_NUMA) {
        snprintf(sentence, bytes, "--bind numa: weft-run was built without hwloc, which knows of NUMA nodes");
        return false;
    }
#endif
    if (find(spots, allowed) && spots->n) return true;
    snprintf(sentence, bytes, "--bind %s: no such place was found%s%s",
             bind == RUN_BIND_NUMA ? "numa" : "core", errno ? ": " : "", errno ? strerror(errno) : "");
    run_spots_free(spots);
    return false;
}
