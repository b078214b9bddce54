/* line.c - see line.h.
 *
 * Fails: nothing here; what is given up leaves, and those behind it go on.  Where a group breaks its communicators are doomed
 * first (group_break.c), so that these are refused and not begun. */
#include "line.h"
#include "engine.h"
#include "group.h"

/* Those at the head that are agreed on. */
static void move_up(weft_group *group)
{
    weft__group_ref(group); /* one that is refused breaks it, which may settle its last request */
    while (!weft__list_empty(&group->line)) {
        weft__ticket *ticket = WEFT__LIST_ENTRY(group->line.next, weft__ticket, link);
        if (ticket->state != WEFT__TICKET_FINAL) break;
        weft__list_remove(&ticket->link);
        weft__device_comm_await(WEFT__OWNER(ticket, weft__device, ticket)->dev_comm, ticket);
    }
    weft__group_unref(group);
}

void weft__line_join(weft__device *first)
{
    WEFT__ASSERT(weft__holds_engine(first->req->ctx));
    if (weft__list_empty(&first->ticket.link))
        weft__list_append(&first->req->group->line, &first->ticket.link);
}

void weft__line_agreed(weft__device *first)
{
    WEFT__ASSERT(weft__holds_engine(first->req->ctx) && first->dev_comm);
    weft__ticket_to(&first->ticket, WEFT__TICKET_FINAL);
    first->ticket.alone = true;
    move_up(first->req->group);
}

void weft__line_leave(weft__device *first)
{
    weft__list_remove(&first->ticket.link);
    move_up(first->req->group);
}
