/* list.h - intrusive circular doubly linked list.  A node that is in no list points to itself, or, where its
 * memory was zeroed and nothing else has been done to it, to nothing. */
#ifndef WEFT_BASE_LIST_H
#define WEFT_BASE_LIST_H
#include "check.h"

#include <stdbool.h>

typedef struct weft__list {
    struct weft__list *next, *prev;
} weft__list;

static inline void weft__list_init(weft__list *head)
{
    head->next = head->prev = head;
}

static inline bool weft__list_empty(const weft__list *head)
{
    return head->next == head;
}

/* Does that list have this node?  Walks it: for assertions. */
static inline bool weft__list_has(const weft__list *head, const weft__list *node)
{
    for (const weft__list *at = head->next; at != head; at = at->next)
        if (at == node) return true;
    return false;
}

/* A node is in one list at a time.  It goes to the end, or before the node that is given as the head. */
static inline void weft__list_append(weft__list *head, weft__list *node)
{
    WEFT__ASSERT_HOT(!node->next || node->next == node); /* it is in no list */
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): a head is never without neighbours
    WEFT__ASSERT_HOT(head->prev->next == head && head->next->prev == head);
    node->next = head;
    node->prev = head->prev;
    head->prev->next = node;
    head->prev = node;
}

static inline void weft__list_prepend(weft__list *head, weft__list *node)
{
    weft__list_append(head->next, node);
}

/* Safe on a node that is in no list.  The analyzer does not follow that what was removed and freed before is
 * nobody's neighbour any more. */
static inline void weft__list_remove(weft__list *node)
{
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    WEFT__ASSERT_HOT(node->prev->next == node && node->next->prev == node);
    // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node->prev = node;
}

#define WEFT__LIST_ENTRY(node, type, member) WEFT__OWNER(node, type, member)
/* The body may remove `at`, and nothing else. */
#define WEFT__LIST_EACH(head, at)                                            \
    for (weft__list *at = (head)->next, *at##_next = at->next; at != (head); \
         at = at##_next, at##_next = at->next)
#endif
