/*
 * pause holds the namespaces of a pod. It sleeps until it is told to stop, and as process 1 of a shared process
 * namespace it collects the exit status of orphans, so that they do not pile up as zombies.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int number) {
	(void)number;
	_exit(0);
}

static void reap(int number) {
	(void)number;
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
}

int main(int argc, char **argv) {
	if (argc > 1 && strcmp(argv[1], "-v") == 0) {
		puts("pause " VERSION);
		return 0;
	}
	struct sigaction on_stop = {.sa_handler = stop};
	struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
	if (sigaction(SIGINT, &on_stop, NULL) || sigaction(SIGTERM, &on_stop, NULL) || sigaction(SIGCHLD, &on_child, NULL)) {
		perror("sigaction");
		return 1;
	}
	for (;;) {
		pause();
	}
}
