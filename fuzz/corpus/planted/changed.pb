
aaaab