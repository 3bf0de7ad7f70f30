// Package explorer is the host of the access explorer (EX): a web page on this machine that shows who can do what, why,
// and what would change. It decides nothing. It runs the commands of proviso as the user of the kubeconfig and shows
// what they print; each screen names its command. Other users and web sites are kept out by a token that works once, a
// cookie and a key that only the page has, and checks of Host and Origin.
package explorer
