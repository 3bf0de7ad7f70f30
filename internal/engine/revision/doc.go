// Package revision says how recent policy is: for every source of the policy, the last revision that was seen (TR-13).
package revision
