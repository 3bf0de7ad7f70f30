package expr_test

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"proviso.dev/proviso/internal/engine/expr"
)

func Example() {
	compiler, err := expr.New(expr.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	program, issues := compiler.Compile(
		`request.user.startsWith("bot-") && object.spec.signerName == "example.com/signer"`,
		expr.Options{Kind: expr.When})
	if issues != nil {
		fmt.Println(issues)
		return
	}

	// Authorization: only the request is known.
	eve := &expr.Request{User: "eve", Verb: "create", Resource: "certificatesigningrequests"}
	fmt.Println(program.Decide(eve, expr.Allow).Truth())
	bot := &expr.Request{User: "bot-1", Verb: "create", Resource: "certificatesigningrequests"}
	finding := program.Decide(bot, expr.Allow)
	fmt.Println(finding.Truth())

	// Admission: the object is known.
	csr := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"signerName": "example.com/signer"},
	}}
	data := expr.NewData(expr.DataConfig{Operation: "CREATE", OwnKind: true, Objects: expr.Static{New: csr}})
	fmt.Println(finding.Residual().Evaluate(context.Background(), data))

	// Output:
	// False
	// Unresolved
	// true <nil>
}
