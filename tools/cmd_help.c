/* SPDX-License-Identifier: MIT
 *
 * gpuleak help: lists the pages of the documentation, and prints one, on a terminal through a
 * pager. The pages are the Markdown files of the installed folders, printed as they are; there is
 * no other list of them. Opens no file that is not in these folders.
 */
#include <dirent.h>
#include <signal.h>

#include "report/util/path.h"
#include "tools/commands.h"
#include "tools/launch/library.h"
#include "tools/launch/program.h"
#include "tools/launch/system.h"
#include "tools/suggest.h"

struct help_page {
	char name[64]; /* "gate", as users type it */
	char path[PATH_MAX];
	char title[96];
};

static struct help_page *pages;
static size_t page_count;

static void add_page(const char *folder, const char *file)
{
	static struct help_page page; /* large */
	const char *end = strrchr(file, '.');
	char head[sizeof(page.title)];

	if (!end || strcmp(end, ".md") != 0 || strcmp(file, "README.md") == 0 ||
	    (size_t)(end - file) >= sizeof(page.name) ||
	    snprintf(page.path, sizeof(page.path), "%s/%s", folder, file) >= PATH_MAX)
		return;
	snprintf(page.name, sizeof(page.name), "%.*s", (int)(end - file), file);
	file_head(page.path, head, sizeof(head));
	head[strcspn(head, "\n")] = '\0';
	strcpy(page.title, head + strspn(head, "# "));
	*LIST_ADD(pages, page_count) = page;
}

/* By name, and a guide before the reference of the same name. */
static int by_name(const void *a, const void *b)
{
	const struct help_page *left = a, *right = b;
	int r = strcmp(left->name, right->name);

	return r ? r : strcmp(left->path, right->path);
}

/* Adds the pages in FOLDER to the topics. If DEEP is set, also adds those in its subfolders. */
static void read_folder(const char *folder, bool deep)
{
	char path[PATH_MAX];
	struct dirent *entry;
	AT_END(close_folder) DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir)) != NULL) {
		add_page(folder, entry->d_name);
		if (deep && entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
		    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name) < PATH_MAX)
			read_folder(path, deep);
	}
}

static void find_pages(void)
{
	static const char *const folders[] = { "docs", "docs/guides", "docs/reference" };
	char folder[PATH_MAX];

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (library_find_data("../docs", folders[i], folder, sizeof(folder)) == 0)
			read_folder(folder, i > 0);
	SORT(pages, page_count, by_name);
}

/* Writes the file at PATH to OUT. */
static void copy_file(const char *path, FILE *out)
{
	char bytes[8192];
	size_t n;
	AT_END(close_file) FILE *from = fopen(path, "re");

	while (from && (n = fread(bytes, 1, sizeof(bytes), from)) > 0)
		fwrite(bytes, 1, n, out);
}

/* Returns where a page is written: on a terminal the input of $PAGER, or of less if it is there. */
static FILE *open_pager(void)
{
	static struct program less; /* large */
	const char *pager = getenv("PAGER");
	FILE *to = NULL;

	if (!pager && program_find("less", &less) == 0)
		pager = "less";
	if (isatty(STDOUT_FILENO) && pager && *pager) {
		signal(SIGPIPE, SIG_IGN); /* the pager may end early */
		setenv("LESS", "FRX", 0);
		to = popen(pager, "w");
	}
	return to ? to : stdout;
}

void help_list_pages(void)
{
	find_pages();
	if (!page_count)
		print_error("help: the pages are neither beside this command nor in "
			    GPULEAK_DATADIR "/docs; install gpuleak again");
	else
		puts("\nTopics, each a page that `gpuleak help TOPIC` prints:\n");
	for (size_t i = 0; i < page_count; i++) {
		const char *name = find_command(pages[i].name) ? path_last(pages[i].path)
							      : pages[i].name;

		if (i == 0 || strcmp(pages[i].name, pages[i - 1].name) != 0)
			printf("  %-16s %s\n", name, pages[i].title);
	}
}

bool help_print_page(const char *name, struct suggestion *suggestion)
{
	FILE *to = NULL;

	find_pages();
	for (size_t i = 0; i < page_count; i++) {
		suggest_consider(suggestion, pages[i].name);
		if (strcmp(name, pages[i].name) != 0 &&
		    strcmp(name, path_last(pages[i].path)) != 0)
			continue;
		if (to)
			fputc('\n', to);
		else
			to = open_pager();
		copy_file(pages[i].path, to);
	}
	if (to && to != stdout)
		pclose(to);
	return to != NULL;
}
