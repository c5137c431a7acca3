module leaks

go 1.17
