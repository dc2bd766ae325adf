// NDNd as a program to test against. Its version is exact: the module proxy lists none.
module namewire.test/ndnd

go 1.24.0

require github.com/named-data/ndnd v1.5.3
