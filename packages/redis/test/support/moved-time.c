/*
 * Moves the wall clock of the process that loads it. The file that ACKORD_CLOCK names holds the offset in milliseconds, as text; it is
 * read at each call, so that a test can set the clock while a server runs. The monotonic clock is left alone, as by an operator's `date -s`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset_ms(void)
{
	static int file = -1;
	char text[32];
	ssize_t length;

	if (file == -1) {
		const char *path = getenv("ACKORD_CLOCK");
		file = path == NULL ? -2 : open(path, O_RDONLY | O_CLOEXEC);
		if (file == -1)
			abort();
	}
	if (file < 0)
		return 0;
	length = pread(file, text, sizeof text - 1, 0);
	if (length <= 0)
		return 0;
	text[length] = '\0';
	return atoll(text);
}

int clock_gettime(clockid_t clock, struct timespec *result)
{
	static int (*real)(clockid_t, struct timespec *);
	int status;

	if (real == NULL)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	status = real(clock, result);
	if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		long long ns = result->tv_nsec + offset_ms() % 1000 * 1000000;
		result->tv_sec += offset_ms() / 1000;
		if (ns < 0) {
			ns += 1000000000;
			result->tv_sec -= 1;
		} else if (ns >= 1000000000) {
			ns -= 1000000000;
			result->tv_sec += 1;
		}
		result->tv_nsec = ns;
	}
	return status;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	result->tv_sec = now.tv_sec;
	result->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (result != NULL)
		*result = now.tv_sec;
	return now.tv_sec;
}
