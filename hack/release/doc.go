// Command release makes what is published of a release: static binaries for every platform, archives with completions
// and manual pages, an SBOM for each binary, an OCI image, a krew manifest and checksums. The same commit gives the
// same bytes, whatever directory and machine it is built in (OP-1).
//
//	go run . -root ../.. -out ../../dist -version v0.1.0 -epoch 1700000000 -ldflags '…' -platforms linux/amd64
//
// `make release` has the flags. It is a module of its own: what makes images and SBOMs is not part of the product.
package main
