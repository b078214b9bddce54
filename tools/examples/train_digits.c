/* train_digits.c - training on real data while gradients travel.
 *
 * Every rank holds the whole network and computes its share of each batch.  As soon as the backward pass has
 * a layer's gradient, weft_all_reduce adds it up over the ranks, while this thread goes on with the layer
 * before. The layer's step is taken when its request has settled - at the latest when the next forward pass
 * reaches it. The mathematics is that of one rank; only the order in which float32 numbers are added differs.
 *
 *   weft-run -n 4 train_digits [--epochs N] [--hidden N] [--batch N] [--data FILE] [--losses FILE] [--expect
 * FILE]
 *
 * --losses writes each epoch's loss to FILE; --expect compares with such a file and fails if a loss differs
 * by more than LOSS_TOLERANCE.  Any other failure ends the program with exit code 1 and a sentence. */
#include "digits.h"
#include "mlp.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <weft/weft.h>

#define SEED           UINT64_C(20240229)
#define RATE           0.05F
#define MOMENTUM       0.9F
#define LOSS_TOLERANCE 1e-3 /* relative to max(1, loss): float32 numbers are added in another order */
#define FINALIZE_MS    10000

struct options {
    size_t epochs, hidden, batch;
    const char *data, *losses, *expect;
};

/* What the requests of one kind of work told about themselves. */
struct travel {
    double communication, exposed; /* seconds */
};

struct trainer {
    struct options options;
    weft_context *ctx;
    weft_group *world;
    int rank, ranks;
    struct digits digits;
    struct mlp net;
    size_t *order;
    weft_request *request[MLP_LAYERS]; /* of the gradient, until its step is taken */
    struct travel travel;
};

static _Noreturn void __attribute__((format(printf, 1, 2))) fail(const char *format, ...)
{
    va_list args;
    fputs("train_digits: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

static void check(weft_status status, const char *what)
{
    if (status != WEFT_OK) fail("%s: %s (%s)", what, weft_last_error(), weft_status_name(status));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- gradients on their way --------------------------------------------------------------------------- */

static void send_gradient(struct trainer *t, int layer)
{
    struct mlp_layer *l = &t->net.layer[layer];
    check(weft_all_reduce(t->world, l->gradient, l->gradient, l->parameters, WEFT_FLOAT32, WEFT_SUM, NULL,
                          &t->request[layer]),
          "all_reduce");
}

/* Waits for a layer's gradient, if it has not come yet, and takes the layer's step. */
static void settle(struct trainer *t, int layer)
{
    weft_request_info info;
    if (!t->request[layer]) return;
    check(weft_wait(t->request[layer], WEFT_FOREVER), "waiting for a gradient");
    weft_request_get_info(t->request[layer], &info);
    weft_release(t->request[layer]);
    t->request[layer] = NULL;
    t->travel.communication += (double)(info.settled_ns - info.started_ns) * 1e-9;
    t->travel.exposed += (double)info.waited_ns * 1e-9;
    mlp_step(&t->net, layer, RATE, MOMENTUM);
}

/* The steps that can be taken without waiting, among layers that this backward pass needs no more. */
static void settle_completed(struct trainer *t, int lowest)
{
    for (int l = MLP_LAYERS - 1; l >= lowest; l--)
        if (t->request[l] && weft_is_completed(t->request[l])) settle(t, l);
}

/* ---- training --------------------------------------------------------------------------------------------
 */

/* This rank's part of n rows: from *first on, as many as returned. */
static size_t share(const struct trainer *t, size_t n, size_t *first)
{
    size_t rank = (size_t)t->rank, ranks = (size_t)t->ranks;
    *first = n * rank / ranks;
    return n * (rank + 1) / ranks - *first;
}

static double train_batch(struct trainer *t, const size_t *order, size_t batch)
{
    size_t first, rows = share(t, batch, &first), recognised;
    double loss;
    mlp_load(&t->net, t->digits.train, order + first, rows);
    for (int l = 0; l < MLP_LAYERS; l++) {
        settle(t, l);
        mlp_forward(&t->net, l);
    }
    loss = mlp_loss(&t->net, batch, &recognised);
    for (int l = MLP_LAYERS - 1; l >= 0; l--) {
        mlp_gradient(&t->net, l);
        send_gradient(t, l);
        if (l > 0) mlp_pass_back(&t->net, l);
        settle_completed(t, l);
    }
    return loss;
}

/* The mean loss of the epoch's rows, each as it was met. */
static double train_epoch(struct trainer *t, uint64_t *random)
{
    size_t n = t->digits.train_count;
    double loss = 0;
    digits_shuffle(t->order, n, random);
    for (size_t at = 0; at < n; at += t->options.batch) {
        size_t batch = n - at < t->options.batch ? n - at : t->options.batch;
        loss += train_batch(t, t->order + at, batch);
    }
    check(weft_all_reduce(t->world, &loss, &loss, 1, WEFT_FLOAT64, WEFT_SUM, NULL, NULL),
          "adding up the loss");
    return loss / (double)n;
}

static double test_accuracy(struct trainer *t)
{
    size_t first, rows = share(t, t->digits.test_count, &first), part;
    uint64_t right = 0;
    for (int l = 0; l < MLP_LAYERS; l++) settle(t, l);
    for (size_t done = 0; done < rows; done += part) {
        size_t recognised;
        part = rows - done < t->net.rows_max ? rows - done : t->net.rows_max;
        mlp_load(&t->net, t->digits.test + first + done, NULL, part);
        for (int l = 0; l < MLP_LAYERS; l++) mlp_forward(&t->net, l);
        mlp_loss(&t->net, part, &recognised);
        right += recognised;
    }
    check(weft_all_reduce(t->world, &right, &right, 1, WEFT_UINT64, WEFT_SUM, NULL, NULL),
          "adding up the hits");
    return (double)right / (double)t->digits.test_count;
}

static bool train(struct trainer *t)
{
    uint64_t random = SEED;
    FILE *out = NULL, *expect = NULL;
    bool equal = true;
    if (t->rank == 0 && t->options.losses && !(out = fopen(t->options.losses, "we")))
        fail("%s cannot be written", t->options.losses);
    if (t->rank == 0 && t->options.expect && !(expect = fopen(t->options.expect, "re")))
        fail("%s cannot be read", t->options.expect);
    for (size_t epoch = 1; epoch <= t->options.epochs; epoch++) {
        double began = seconds(), loss = train_epoch(t, &random), other = loss;
        if (t->rank == 0) printf("epoch %2zu  loss %.6f  %5.2f s\n", epoch, loss, seconds() - began);
        fflush(stdout);
        if (out) fprintf(out, "%.9g\n", loss);
        if (expect && fscanf(expect, "%lf", &other) != 1) fail("%s has too few losses", t->options.expect);
        if (fabs(loss - other) <= LOSS_TOLERANCE * fmax(1, fabs(other))) continue;
        fprintf(stderr, "train_digits: epoch %zu: loss %.9g, expected %.9g\n", epoch, loss, other);
        equal = false;
    }
    if (out && fclose(out)) fail("%s cannot be written", t->options.losses);
    if (expect) fclose(expect);
    return equal;
}

/* ---- before and after
 * -------------------------------------------------------------------------------------- */

/* Rank 0 shows, for every rank, how much of its communication the caller had to wait for. */
static void report(struct trainer *t)
{
    struct travel *all = calloc((size_t)t->ranks, sizeof(*all)), sum = {0, 0};
    if (!all) fail("no memory");
    check(weft_gather(t->world, &t->travel, all, 2, WEFT_FLOAT64, 0, NULL, NULL), "gathering the times");
    if (t->rank == 0) {
        printf("\n%-6s %15s %12s %12s\n", "rank", "communication", "exposed", "hidden");
        for (int r = 0; r <= t->ranks; r++) {
            const struct travel *row = r < t->ranks ? &all[r] : &sum;
            double hidden = fmax(0, row->communication - row->exposed);
            char name[16];
            snprintf(name, sizeof(name), "%d", r);
            printf("%-6s %13.3f s %10.3f s %10.3f s\n", r < t->ranks ? name : "all", row->communication,
                   row->exposed, hidden);
            if (r == t->ranks) break;
            sum.communication += row->communication;
            sum.exposed += row->exposed;
        }
    }
    free(all);
}

static size_t number(const char *text, size_t most)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    if (end == text || *end || n < 1 || n > most) fail("\"%s\" is not a number from 1 to %zu", text, most);
    return (size_t)n;
}

static struct options parse(int argc, char **argv)
{
    static const struct option names[] = {{"epochs", required_argument, NULL, 'e'},
                                          {"hidden", required_argument, NULL, 'h'},
                                          {"batch", required_argument, NULL, 'b'},
                                          {"data", required_argument, NULL, 'd'},
                                          {"losses", required_argument, NULL, 'l'},
                                          {"expect", required_argument, NULL, 'x'},
                                          {NULL, 0, NULL, 0}};
    struct options o = {.epochs = 12, .hidden = 1024, .batch = 128, .data = TRAIN_DIGITS_DATA};
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'e': o.epochs = number(optarg, 1000); break;
        case 'h': o.hidden = number(optarg, 16384); break;
        case 'b': o.batch = number(optarg, 65536); break;
        case 'd': o.data = optarg; break;
        case 'l': o.losses = optarg; break;
        case 'x': o.expect = optarg; break;
        default: exit(2);
        }
    }
    if (optind < argc) fail("\"%s\" is not an option", argv[optind]);
    return o;
}

static void start(struct trainer *t)
{
    char why[512];
    size_t first;
    if (!digits_load(&t->digits, t->options.data, why, sizeof(why))) fail("%s", why);
    check(weft_init(NULL, &t->ctx), "joining the job");
    t->world = weft_world(t->ctx);
    t->rank = weft_group_rank(t->world);
    t->ranks = weft_group_size(t->world);
    t->order = calloc(t->digits.train_count, sizeof(*t->order));
    /* A share of a smaller batch can be a row more than that of a whole one, never two. */
    if (!t->order || !mlp_init(&t->net, t->options.hidden, share(t, t->options.batch, &first) + 1, SEED))
        fail("no memory for the network");
    if (t->rank == 0)
        printf("%d ranks; %zu digits to learn, %zu to test; %d-%zu-%zu-%d in batches of %zu\n", t->ranks,
               t->digits.train_count, t->digits.test_count, DIGIT_PIXELS, t->options.hidden,
               t->options.hidden, DIGIT_CLASSES, t->options.batch);
}

int main(int argc, char **argv)
{
    struct trainer t = {.options = parse(argc, argv)};
    double accuracy;
    bool equal;
    start(&t);
    equal = train(&t);
    accuracy = test_accuracy(&t);
    if (t.rank == 0) printf("\ntest accuracy %.2f %%\n", accuracy * 100);
    report(&t);
    check(weft_finalize(t.ctx, FINALIZE_MS), "leaving the job");
    mlp_free(&t.net);
    free(t.order);
    digits_free(&t.digits);
    return equal ? 0 : 1;
}
