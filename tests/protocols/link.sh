#!/bin/bash
# link.sh [large] - the model of connections that break and stand again (link.pml): what must hold does, whatever order things
# happen in, and each rule that is wrong is found.  `large`: with attempts that wait so long that the other rank's connection is
# taken too (4.6 million states), and with more breaks and more frames, as far as a bit for each state goes in 1 GiB and
# MODEL_SECONDS (600) of processor time each.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
model=$folder/link.pml
# shellcheck source=tests/protocols/model.sh
. "$folder/model.sh"

holds -DRESETS=1
for wrong in FORGETS TAKEN_BACK TWICE WHOLE EARLY AT_HEADER OLD_READS OVERTAKEN UNHEARD IN_VAIN ASKER HASTY; do breaks -DRESETS=1 -D$wrong; done

[ "${1:-}" = large ] || exit 0
holds -DRESETS=1 -DLATES=1
holds_so_far -DRESETS=1 -DDATA=2
holds_so_far -DRESETS=2
holds_so_far -DRESETS=3
