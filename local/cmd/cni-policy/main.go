// Command cni-policy is the CNI plugin hortus-policy: no pod starts without the rules of its network policies.
package main

import (
	"os"

	"hortus.dev/hortus/local/provider/networkagent/hook"
)

func main() {
	p := &hook.Plugin{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Dial: hook.DialSocket}
	os.Exit(p.Run())
}
