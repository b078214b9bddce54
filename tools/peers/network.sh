# shellcheck shell=bash
# network.sh - sourced by tools/compare: two networks on this machine, joined by a link of 1 Gbit/s each way.
#
# They are namespaces of our own, one a rank; nothing outside them is touched, and they are gone when the link is.

network_a=weft-a$$ network_b=weft-b$$
network_address_a=10.231.7.1 network_address_b=10.231.7.2
network_interface_a=weft0 network_interface_b=weft1

# network_make FOLDER: 1 where it may not or cannot be made; FOLDER gets what starts a command on the other side.
network_make() {
    ip netns add $network_a && ip netns add $network_b &&
        ip link add $network_interface_a netns $network_a type veth peer name $network_interface_b netns $network_b &&
        network_end $network_a $network_interface_a $network_address_a &&
        network_end $network_b $network_interface_b $network_address_b &&
        network_await $network_a $network_interface_a && network_await $network_b $network_interface_b &&
        network_launcher "$1"
}

# The kernel finds that a link is up some time after it was told so; until then UCX does not see it.
network_await() { # NAMESPACE INTERFACE
    local i
    for ((i = 0; i < 50; i++)); do
        case $(ip -n "$1" -br link show "$2") in *" UP "*) return ;; esac
        sleep 0.1
    done
    return 1
}

network_end() { # NAMESPACE INTERFACE ADDRESS
    ip -n "$1" addr add "$3/24" dev "$2" && ip -n "$1" link set lo up && ip -n "$1" link set "$2" up || return 1
    tc -n "$1" qdisc add dev "$2" root netem delay 100us rate 1gbit 2>/dev/null ||
        tc -n "$1" qdisc add dev "$2" root tbf rate 1gbit burst 256kb latency 50ms # a kernel without netem
}

# The launchers of MPI start ranks on other hosts by a command like ssh: HOST COMMAND.  A host of its own has a name of
# its own.
network_launcher() { # FOLDER
    cat >"$1/on_host" <<END
#!/bin/sh
while case "\$1" in -*) true ;; *) false ;; esac; do shift; done
case "\$1" in
$network_address_b) in=$network_b name=weft-host-b ;;
*) in=$network_a name=weft-host-a ;;
esac
shift
exec ip netns exec \$in unshare -u sh -c "hostname \$name; \$*"
END
    chmod +x "$1/on_host"
}

network_remove() {
    ip netns del $network_a
    ip netns del $network_b
} 2>/dev/null
