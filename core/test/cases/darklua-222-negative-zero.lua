-- darklua #222, and Prometheus Medium today
print(1 / -0.0, 1 / (-0.0), 1 / 0.0, -0.0, 0.0, - 0.0 == 0, 1 / (0 * -1.0), -0)
