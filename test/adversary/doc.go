// Package adversary hunts by search: on the real server, in process, actors with random but limited rights take random
// steps, and an observer who sees everything checks what came of it. It holds effects against package game's oracle,
// which reads the specification:
//
//   - no request succeeded that the policy of the beginning gives to nobody who acted;
//   - nothing was deleted, changed or read that the one who set it in motion is denied, by whatever controller;
//   - nobody ends with a right that nobody who acted held, and nobody's rights change without cause;
//   - those who ask for access get it only by the approval of others who may, and only until it ends;
//   - with a narrowed token nothing succeeds that one of its links does not allow, or name where it must;
//   - exclusive fields and protected attributes are as they were, unless an actor who may has written them;
//   - no request costs more than its bound, and a change of policy is soon effective.
//
// What it finds is shrunk to the shortest sequence and kept in testdata, which `go test` replays.
// `go run ./hack/prove hunt HUNT_TIME=1h` searches on.
package adversary
