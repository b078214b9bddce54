/* protocols.c - every protocol, a row each. */
#include "protocols.h"
#include "breaks.h"
#include "device_bundle.h"
#include "device_comm.h"
#include "dump_asking.h"
#include "gathering.h"
#include "group_create_common.h"
#include "heartbeat.h"
#include "interleaving.h"
#include "job_store.h"
#include "leave_together.h"
#include "membership.h"
#include "mesh.h"
#include "order.h"
#include "signatures.h"
#include "signing.h"
#include "slot_exchange.h"
#include "spreading.h"
#include "straggler.h"

const weft__protocol *const weft__protocols[WEFT__PROTOCOL_KINDS + 1] = {
    [WEFT__PROTOCOL_DEVICE_COMMS] = &weft__device_comms_protocol,
    [WEFT__PROTOCOL_ORDER] = &weft__order_protocol,
    [WEFT__PROTOCOL_BUNDLES] = &weft__bundles_protocol,
    [WEFT__PROTOCOL_SLOTS] = &weft__slot_exchange_protocol,
    [WEFT__PROTOCOL_SIGNATURES] = &weft__signatures_protocol,
    [WEFT__PROTOCOL_SIGNING] = &weft__signing_protocol,
    [WEFT__PROTOCOL_INTERLEAVING] = &weft__interleaving_protocol,
    [WEFT__PROTOCOL_BREAKS] = &weft__breaks_protocol,
    [WEFT__PROTOCOL_CREATE] = &weft__group_create_protocol,
    [WEFT__PROTOCOL_SHRINK] = &weft__shrink_protocol,
    [WEFT__PROTOCOL_SPREADING] = &weft__spreading_protocol,
    [WEFT__PROTOCOL_GATHERING] = &weft__gathering_protocol,
    [WEFT__PROTOCOL_MESH] = &weft__mesh_protocol,
    [WEFT__PROTOCOL_STRAGGLER] = &weft__straggler_protocol,
    [WEFT__PROTOCOL_LEAVE_TOGETHER] = &weft__leave_together_protocol,
    [WEFT__PROTOCOL_STORE] = &weft__store_protocol,
    [WEFT__PROTOCOL_DUMPS] = &weft__dumps_protocol,
    [WEFT__PROTOCOL_MEMBERSHIP] = &weft__membership_protocol,
    [WEFT__PROTOCOL_HEARTBEAT] = &weft__heartbeat_protocol};
