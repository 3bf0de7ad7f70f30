// Package revision says how new policy is: for every source of the policy, the last that was seen of it (TR-13).
package revision
