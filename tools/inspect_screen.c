/* inspect_screen.c - see inspect_screen.h.  A page is made in memory and written at once, so that nothing flickers. */
#include "inspect_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

enum { WIDTH = 80, EVERY_MS = 1000 };

void inspect_screen_size(int *width, int *lines)
{
    struct winsize size;
    *width = WIDTH;
    *lines = 0;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_col < 20) return;
    *width = size.ws_col;
    *lines = size.ws_row;
}

static void write_all(const char *bytes, size_t count)
{
    while (count) {
        ssize_t n = write(STDOUT_FILENO, bytes, count);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        bytes += n;
        count -= (size_t)n;
    }
}

/* From the top; what was below is cleared.  What does not fit is left out. */
static void show(const char *page, size_t bytes, int lines)
{
    static const char top[] = "\033[H\033[J";
    const char *end = page;
    for (int line = 1; lines && line < lines && end && *end; line++) {
        end = strchr(end, '\n');
        if (end) end++;
    }
    if (lines) write_all(top, sizeof top - 1);
    write_all(page, lines && end ? (size_t)(end - page) : bytes);
}

static int draw_once(int (*draw)(FILE *to, int width, int lines, void *arg), void *arg)
{
    int width, lines, code;
    size_t bytes = 0;
    char *page = NULL;
    FILE *to = open_memstream(&page, &bytes);
    if (!to) return 1;
    inspect_screen_size(&width, &lines);
    code = draw(to, width, lines, arg);
    fclose(to);
    show(page, bytes, lines);
    free(page);
    return code;
}

/* False: q was pressed, or a signal has come. */
static bool sleep_on(int signals, bool keys)
{
    struct pollfd fds[2] = {{signals, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
    char key;
    if (poll(fds, keys ? 2 : 1, EVERY_MS) <= 0) return true;
    if (fds[0].revents) return false;
    return read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q';
}

int inspect_screen_run(int (*draw)(FILE *to, int width, int lines, void *arg), void *arg)
{
    struct termios before, raw;
    sigset_t set;
    bool keys = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !tcgetattr(STDIN_FILENO, &before);
    int signals, code;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC);
    if (keys) {
        raw = before;
        raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    do code = draw_once(draw, arg);
    while (!code && sleep_on(signals, keys));
    if (keys) tcsetattr(STDIN_FILENO, TCSANOW, &before);
    if (signals >= 0) close(signals);
    return code;
}
