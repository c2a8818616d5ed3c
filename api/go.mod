module hortus.dev/hortus/api

go 1.26.0
