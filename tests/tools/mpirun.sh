# shellcheck shell=sh
# mpirun.sh - sourced by tests: both mpirun as tests need them, on one machine and without a network.

# start_ranks openmpi|mpich N PROGRAM [ARGUMENTS]
start_ranks() {
    mpi=$1 n=$2
    shift 2
    case $mpi in
    openmpi)
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout -k 5 60 mpirun.openmpi --oversubscribe \
            --mca plm isolated --mca oob_tcp_if_include lo --mca btl self,vader -n "$n" "$@"
        ;;
    mpich)
        timeout -k 5 60 mpirun.mpich -launcher fork -iface lo -n "$n" "$@"
        ;;
    esac
}
