/* script.h - what goes wrong, and when, by CUDA_EMULATION_SCRIPT or emu_script().
 *
 *   script  =  rule { ';' rule }          spaces around a rule do not count
 *   rule    =  [where ':'] name '@' when '=' what
 *   where   =  'rank' N                   only in the process whose environment says RANK=N
 *           |  'dev' N                    only for threads whose current device is N
 *   name    =  a function of CUDA or NCCL, or one of the words of emu_event(); "context": one is made;
 *                                         "making", "ending": a communicator is
 *   when    =  N                          the N-th such call that this rule sees, from 1 on
 *           |  N '+'                      that one and all after it
 *           |  '*' [N]                    every one; every N-th
 *   what    =  'error:' N ['!']           the call returns this error, as a number of its library;
 *                                         with ! (functions of CUDA) it stays: the device that is current has
 *                                         died of it, whatever its number, and answers every call with it
 *           |  'value:' N                 the argument of an emu_event()
 *           |  'delay:' MS                the call begins so many milliseconds later
 *           |  'hang' [':' MS]            it waits so long, or until emu_release(), or for ever;
 *                                         inside NCCL also until its communicator is aborted
 *           |  'stuck'                    the same, but an abort does not end it
 *           |  'die'                      the process is killed as by kill -9
 *
 * Rules are looked at from the left; the first that applies to a call is carried out, though all that see it
 * count it.  A rule that cannot be read ends the process with a sentence and status 87. */
#ifndef EMULATION_SCRIPT_H
#define EMULATION_SCRIPT_H

enum { EMU__SCRIPT_STATUS = 87 };

/* The error that the script has for this call; 0: none. */
int emu__script_call(const char *function);
#endif
