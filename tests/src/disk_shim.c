/*
 * A disk that forgets what was not synced, for the process that this library is loaded into.
 *
 * Files directly below $DELAYQ_DISK are watched. Their pages are written to the machine's disk as always; those that were
 * written since the last fsync of their file are noted, and an fsync copies them to the file of the same name in
 * $DELAYQ_DISK_SYNCED: what is there is what a power cut leaves, at the least. A name is there once its folder was
 * synced: $DELAYQ_DISK_SYNCED/names/NAME.
 *
 * $DELAYQ_DISK_MODE: "lies": an fsync does nothing and succeeds, as with PRAGMA synchronous=OFF; "fails:N": the Nth fsync
 * fails, and forgets the pages that it should have written, as Linux does; "ends:N": the process is killed in front of the
 * Nth fsync.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define MOST_FDS 1024
#define MOST_PAGES (1 << 18)

static char disk[PATH_MAX], synced[PATH_MAX];
static int lies, fails_at, ends_at, syncs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* By file descriptor: the name of a watched file, and its pages that were written since its last fsync. Two descriptors
 * of one file are not watched together: SQLite writes each of its files through one. */
static char *names[MOST_FDS];
static unsigned char *dirty[MOST_FDS];

static int (*libc_open)(const char *, int, ...);
static int (*libc_close)(int);
static ssize_t (*libc_write)(int, const void *, size_t);
static ssize_t (*libc_pwrite)(int, const void *, size_t, off_t);

__attribute__((constructor)) static void start(void) {
    libc_open = dlsym(RTLD_NEXT, "open64");
    libc_close = dlsym(RTLD_NEXT, "close");
    libc_write = dlsym(RTLD_NEXT, "write");
    libc_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    const char *folder = getenv("DELAYQ_DISK"), *to = getenv("DELAYQ_DISK_SYNCED"), *mode = getenv("DELAYQ_DISK_MODE");
    if (!folder || !to || !realpath(folder, disk)) return;
    snprintf(synced, sizeof synced, "%s", to);
    lies = mode && strcmp(mode, "lies") == 0;
    if (mode && strncmp(mode, "fails:", 6) == 0) fails_at = atoi(mode + 6);
    if (mode && strncmp(mode, "ends:", 5) == 0) ends_at = atoi(mode + 5);
}

/* The name of a file directly below the disk; the index that processes share in memory is no file of the disk. */
static const char *watched(const char *path) {
    char full[PATH_MAX];
    size_t length = strlen(disk);
    if (length == 0 || !realpath(path, full) || strncmp(full, disk, length) != 0 || full[length] != '/') return NULL;
    const char *name = path + strlen(path);
    while (name > path && name[-1] != '/') name--;
    size_t end = strlen(name);
    if (strchr(full + length + 1, '/') || (end > 4 && strcmp(name + end - 4, "-shm") == 0)) return NULL;
    return name;
}

static int opened(int fd, const char *path) {
    if (fd < 0 || fd >= MOST_FDS) return fd;
    const char *name = watched(path);
    if (!name) return fd;
    pthread_mutex_lock(&lock);
    names[fd] = strdup(name);
    dirty[fd] = calloc(MOST_PAGES, 1);
    pthread_mutex_unlock(&lock);
    return fd;
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    if (!libc_open) start();
    return opened(libc_open(path, flags, mode), path);
}

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    return open64(path, flags, mode);
}

int close(int fd) {
    if (!libc_close) start();
    if (fd >= 0 && fd < MOST_FDS && names[fd]) {
        pthread_mutex_lock(&lock);
        free(names[fd]);
        free(dirty[fd]);
        names[fd] = NULL;
        dirty[fd] = NULL;
        pthread_mutex_unlock(&lock);
    }
    return libc_close(fd);
}

static void note(int fd, off_t at, ssize_t count) {
    if (fd < 0 || fd >= MOST_FDS || !names[fd] || count <= 0) return;
    for (off_t page = at / PAGE; page <= (at + count - 1) / PAGE && page < MOST_PAGES; page++) dirty[fd][page] = 1;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    if (!libc_write) start();
    off_t at = fd >= 0 && fd < MOST_FDS && names[fd] ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t written = libc_write(fd, bytes, count);
    note(fd, at, written);
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) {
    if (!libc_pwrite) start();
    ssize_t written = libc_pwrite(fd, bytes, count, at);
    note(fd, at, written);
    return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    return pwrite64(fd, bytes, count, at);
}

/* Copies the pages that were written, and the length. */
static void keep(int fd) {
    char path[PATH_MAX + 300], page[PAGE];
    snprintf(path, sizeof path, "%s/%s", synced, names[fd]);
    int to = libc_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct stat now;
    if (to < 0 || fstat(fd, &now) != 0) abort();
    for (off_t n = 0; n < MOST_PAGES && n * PAGE < now.st_size; n++) {
        if (!dirty[fd][n]) continue;
        ssize_t count = pread(fd, page, PAGE, n * PAGE);
        if (count < 0 || libc_pwrite(to, page, count, n * PAGE) != count) abort();
    }
    if (ftruncate(to, now.st_size) != 0) abort();
    libc_close(to);
}

/* Notes the names that a folder has. */
static void keep_names(void) {
    char command[2 * PATH_MAX + 100];
    snprintf(command, sizeof command, "%s/names", synced);
    mkdir(command, 0700);
    for (int fd = 0; fd < MOST_FDS; fd++) {
        if (!names[fd]) continue;
        snprintf(command, sizeof command, "%s/names/%s", synced, names[fd]);
        int made = libc_open(command, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (made >= 0) libc_close(made);
    }
}

int fsync(int fd) {
    struct stat what;
    char path[PATH_MAX], from[64];
    if (!libc_open) start();
    if (!*disk || fd < 0 || fd >= MOST_FDS || fstat(fd, &what) != 0 || lies) return 0;
    if (S_ISDIR(what.st_mode)) {
        snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(from, path, sizeof path - 1);
        pthread_mutex_lock(&lock);
        if (length > 0 && (path[length] = 0, strcmp(path, disk) == 0)) keep_names();
        pthread_mutex_unlock(&lock);
        return 0;
    }
    if (!names[fd]) return 0;
    pthread_mutex_lock(&lock);
    syncs++;
    if (syncs == ends_at) kill(getpid(), SIGKILL);
    int fails = syncs == fails_at;
    if (!fails) keep(fd);
    memset(dirty[fd], 0, MOST_PAGES);
    pthread_mutex_unlock(&lock);
    if (fails) errno = EIO;
    return fails ? -1 : 0;
}

int fdatasync(int fd) {
    return fsync(fd);
}
