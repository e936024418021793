# The neighbour's set-up, with stand-ins for the shaders that nothing measured here runs.
. $(dirname $0)/../../scripts/setup.sh
. $(dirname $0)/../../scripts/stand-ins.sh
