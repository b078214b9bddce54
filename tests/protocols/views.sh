#!/bin/bash
# views.sh [large] - the model of how the living agree on views (views.pml): what must hold does, whatever order things
# happen in, and each rule that is wrong is found.  `large`: two views one after the other too, and 4
# and 5 ranks, as far as a bit for each state goes in 1 GiB and MODEL_SECONDS (600) of processor time each.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
model=$folder/views.pml
# shellcheck source=tests/protocols/model.sh
. "$folder/model.sh"

holds -DRANKS=3 -DBALLOTS=3 -DVIEWS=2
holds -DRANKS=3 -DBALLOTS=2 -DVIEWS=2 -DPROVEN
holds -DRANKS=2 -DBALLOTS=3 -DVIEWS=2 -DWITNESS
holds -DRANKS=2 -DBALLOTS=2 -DVIEWS=2 -DWITNESS -DPROVEN
holds -DRANKS=4 -DBALLOTS=2 -DVIEWS=2 -DPROVEN -DBEGUN
for wrong in ANY MINORITY LEAVES FORGETS EARLIER; do breaks -DRANKS=3 -DBALLOTS=2 -DVIEWS=2 -D$wrong; done
for wrong in LOWEST LOSES; do breaks -DRANKS=2 -DBALLOTS=2 -DVIEWS=2 -DWITNESS -D$wrong; done
breaks -DRANKS=4 -DBALLOTS=2 -DVIEWS=2 -DPROVEN -DBEGUN -DHEARS

[ "${1:-}" = large ] || exit 0
holds -DRANKS=3 -DBALLOTS=2 -DVIEWS=3
holds -DRANKS=2 -DBALLOTS=2 -DVIEWS=3 -DWITNESS
holds_so_far -DRANKS=2 -DBALLOTS=3 -DVIEWS=3 -DWITNESS
holds_so_far -DRANKS=4 -DBALLOTS=2 -DVIEWS=2 -DWITNESS
holds_so_far -DRANKS=4 -DBALLOTS=3 -DVIEWS=2
holds_so_far -DRANKS=4 -DBALLOTS=2 -DVIEWS=2 -DPROVEN
holds_so_far -DRANKS=5 -DBALLOTS=3 -DVIEWS=2
