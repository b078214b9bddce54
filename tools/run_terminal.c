/* run_terminal.c - see run_terminal.h.  It becomes nobody's controlling terminal: signals of the keyboard go
 * to weft-run. */
#include "run_terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* weft-run's own terminal makes \n into \r\n; once is enough. */
static bool leave_bytes_alone(int fd)
{
    struct termios how;
    if (tcgetattr(fd, &how)) return false;
    cfmakeraw(&how);
    return !tcsetattr(fd, TCSANOW, &how);
}

bool run_terminal_open(int like, int ends[2])
{
    char name[64];
    struct winsize size;
    ends[1] = -1;
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] >= 0 && !grantpt(ends[0]) && !unlockpt(ends[0]) && !ptsname_r(ends[0], name, sizeof(name)))
        ends[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[1] >= 0 && leave_bytes_alone(ends[1])) {
        if (!ioctl(like, TIOCGWINSZ, &size)) ioctl(ends[1], TIOCSWINSZ, &size);
        return true;
    }
    if (ends[1] >= 0) close(ends[1]);
    if (ends[0] >= 0) close(ends[0]);
    return false;
}
