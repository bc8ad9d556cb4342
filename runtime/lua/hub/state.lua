-- hub.state: values that outlive a reload. Protected; written in C (src/bind/state.c).
return require "state"
