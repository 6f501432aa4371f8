/* What the two files of the pair share: the form of a channel. */
#ifndef PAIR_CHANNEL_H
#define PAIR_CHANNEL_H

/*
 * A channel is one thing that two jobs might share. send puts a bit there,
 * receive gives what can be read of it; -errno if it cannot be reached. A reading
 * says nothing by itself: the runner looks whether readings follow the bits.
 */
struct channel {
	const char *name;
	long (*send)(int bit);
	long (*receive)(void);
};

extern const struct channel kernel_channels[];
#endif
