// Program pause holds a pod's namespaces: it waits until it is ended, and takes over what is orphaned.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	fmt.Println("pausing")
	for {
		reap()
		if one := <-signals; one != syscall.SIGCHLD {
			return
		}
	}
}

// reap takes the exit codes of all children that have ended: nobody else does.
func reap() {
	for {
		if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 {
			return
		}
	}
}
