#include <sstream>

#include "base/concat.h"
#include "launch/command_line.h"
#include "launch/flags.h"

namespace lockstep::launch {
namespace {

using base::concat;

constexpr std::size_t kWidth = 96;
constexpr std::size_t kIndent = 34;

constexpr const char* kRunIntroduction = R"(lockstep run [FLAGS] PROGRAM [ARGUMENTS]

Starts PROGRAM several times as workers of one job, tells each who it is (RANK, WORLD_SIZE,
LOCAL_RANK, ...), watches them, and explains a failure. The flags are torchrun's: dashes and
underscores both, each also read from the variable PET_<FLAG>. ARGUMENTS are passed on as they are.
)";

constexpr const char* kLaunchIntroduction = R"(lockstep launch [FLAGS] PROGRAM [ARGUMENTS]

As lockstep run, in the manner of python -m torch.distributed.launch: unless --use-env is given,
--local-rank=N is put before ARGUMENTS.
)";

constexpr const char* kExitCodes = R"(
Exit code: the one of the worker that failed first; 128 + n when signal n ended it or the launcher;
2 wrong usage, 126 program not executable, 127 program not found, 1 other failures of the launcher.
)";

std::string spelled(const Flag& flag) {
  std::string text =
      flag.letter != 0 ? concat("-", flag.letter, ", --", flag.name) : concat("    --", flag.name);
  if (flag.value != nullptr) text += concat(" ", flag.value);
  return text;
}

// `text` broken into lines that start at column kIndent.
std::string wrapped(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  std::size_t column = kIndent;
  for (std::string word; words >> word;) {
    if (column > kIndent && column + 1 + word.size() > kWidth) {
      result += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    } else if (column > kIndent) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

bool has_default(const Flag& flag) { return flag.value != nullptr && *flag.standard != '\0'; }

std::string described(const Flag& flag) {
  return has_default(flag) ? concat(flag.help, " (default: ", flag.standard, ")")
                           : std::string(flag.help);
}

// In a Markdown table a bar must be escaped.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text)
    result += letter == '|' ? std::string("\\|") : std::string(1, letter);
  return result;
}

std::string words_of_flags() {
  std::string words;
  for (const Flag& flag : flags()) words += concat(words.empty() ? "--" : " --", flag.name);
  return words;
}

}  // namespace

std::string help_text(Verb verb) {
  std::string text = verb == Verb::kRun ? kRunIntroduction : kLaunchIntroduction;
  std::string group;
  for (const Flag& flag : flags()) {
    if (group != flag.group) {
      group = flag.group;
      text += concat("\n", group, "\n");
    }
    const std::string head = "  " + spelled(flag);
    const bool fits = head.size() + 1 < kIndent;
    const std::string gap =
        fits ? std::string(kIndent - head.size(), ' ') : "\n" + std::string(kIndent, ' ');
    text += concat(head, gap, wrapped(described(flag)), "\n");
  }
  return text + kExitCodes;
}

std::string flags_as_markdown() {
  std::string text = "| flag | default | meaning |\n|---|---|---|\n";
  for (const Flag& flag : flags()) {
    std::string name = concat("`--", flag.name,
                              flag.value != nullptr ? concat(" ", escaped(flag.value)) : "", "`");
    if (flag.letter != 0) name = concat("`-", flag.letter, "`, ") + name;
    const std::string standard = has_default(flag) ? concat("`", flag.standard, "`") : "";
    text += concat("| ", name, " | ", standard, " | ", escaped(flag.help), " |\n");
  }
  return text;
}

std::string completion_script(const std::string& shell) {
  const std::string words = words_of_flags();
  if (shell == "bash")
    return concat("_lockstep() {\n  local word=\"${COMP_WORDS[COMP_CWORD]}\"\n",
                  "  if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"run launch "
                  "--help --version\" -- \"$word\"))\n",
                  "  elif [[ \"$word\" == -* ]]; then COMPREPLY=($(compgen -W \"", words,
                  "\" -- \"$word\"))\n",
                  "  else COMPREPLY=($(compgen -f -- \"$word\")); fi\n}\ncomplete -o filenames -F "
                  "_lockstep lockstep\n");
  if (shell == "tcsh")
    return concat("complete lockstep 'p/1/(run launch --help --version)/' 'c/-/(", words,
                  ")/' 'p/*/f/'\n");
  std::string script =
      "#compdef lockstep\n_lockstep() {\n  if (( CURRENT == 2 )); then compadd run launch --help "
      "--version; return; fi\n  _arguments -S";
  for (const Flag& flag : flags()) {
    std::string help;
    for (const char* letter = flag.help; *letter != '\0'; ++letter)
      help += *letter == ':' || *letter == '\'' || *letter == '[' || *letter == ']' ? ' ' : *letter;
    script += concat(" \\\n    '--", flag.name, flag.value != nullptr ? "=" : "", "[", help, "]",
                     flag.value != nullptr ? ":value:" : "", "'");
  }
  return script + " \\\n    '*::program:_files'\n}\n_lockstep \"$@\"\n";
}

}  // namespace lockstep::launch
