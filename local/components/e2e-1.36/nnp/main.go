// Command nnp prints its effective user ID. Installed with the set-user-ID bit, it shows whether a container may gain
// privileges.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Println("Effective uid:", os.Geteuid()) }
