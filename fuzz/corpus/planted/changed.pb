
aaaaaaaab