// Command webhook-authorizer is an authorization webhook whose policy is written in Cedar and that answers with
// conditions: what the policy says about the object comes back as what is left of it.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"proviso.dev/proviso/api/authorizationreview/reviewserver"
)

func main() {
	policy := flag.String("policy", "policy.cedar", "The Cedar policy.")
	address := flag.String("address", "127.0.0.1:9443", "Where to listen.")
	kubeconfig := flag.String("kubeconfig", "webhook.kubeconfig", "Where to write the kubeconfig for the API server.")
	flag.Parse()
	if err := run(*policy, *address, *kubeconfig); err != nil {
		log.Fatal(err)
	}
}

func run(policy, address, kubeconfig string) error {
	text, err := os.ReadFile(policy)
	if err != nil {
		return err
	}
	authorizer, err := newAuthorizer(policy, text)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	// A certificate of the moment is enough for one machine. Elsewhere take one of your own, and ask for the API
	// server's: who can ask this server learns the policy.
	tls, ca, err := selfSigned()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: reviewserver.Handler(authorizer), TLSConfig: tls, ReadTimeout: 10 * time.Second}
	if err := writeKubeconfig(kubeconfig, "https://"+listener.Addr().String(), ca); err != nil {
		return err
	}
	fmt.Println("answering at", listener.Addr())
	return server.ServeTLS(listener, "", "")
}
