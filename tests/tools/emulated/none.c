/* none.c - has no use for a device. */
int main(void)
{
    return 0;
}
