// Package apiserver is the host behind `proviso serve`: options → config → the server chain → run.
//
// chain.go shows the whole path of a request, top to bottom. config.go and kube.go call upstream's exported
// constructors in upstream's order and put our stages into the seams; test/drift fails when upstream moves them.
package apiserver
