module namewire/tests/ndnd

go 1.24

require github.com/named-data/ndnd v1.5.3
