-- hub.loader: reloading by hand. Protected; written in C (src/bind/loader.c).
return require "loader"
