/* A problem is one line of words beside its code, whatever it quotes. */
#include "base/problem.h"

#include "../support.h"

static void a_problem_holds_code_position_and_words(void **state)
{
    (void)state;
    struct caudal_problem problem = {.code = 1, .position = 99, .message = "old"};
    cdl_problem(&problem, CAUDAL_ERR_SYNTAX, 7, "'%s' at %d", "x", 3);
    assert_int_equal(problem.code, CAUDAL_ERR_SYNTAX);
    assert_int_equal(problem.position, 7);
    assert_string_equal(problem.message, "'x' at 3");
}

static void the_code_is_returned(void **state)
{
    (void)state;
    struct caudal_problem problem;
    assert_int_equal(cdl_problem(&problem, CAUDAL_ERR_LIMIT, 0, "no"), CAUDAL_ERR_LIMIT);
}

static void nobody_has_to_listen(void **state)
{
    (void)state;
    assert_int_equal(cdl_problem(NULL, CAUDAL_ERR_MEMORY, 0, "%s", "no"), CAUDAL_ERR_MEMORY);
}

static void a_long_message_is_cut_and_ends(void **state)
{
    (void)state;
    char words[1000];
    memset(words, 'w', sizeof words);
    words[sizeof words - 1] = '\0';
    struct {
        struct caudal_problem problem;
        char after[8];
    } box = {.after = "intact"};
    cdl_problem(&box.problem, CAUDAL_ERR_SYNTAX, 0, "%s", words);
    assert_int_equal(strlen(box.problem.message), sizeof box.problem.message - 1);
    assert_string_equal(box.after, "intact");
}

static void control_characters_from_outside_become_question_marks(void **state)
{
    (void)state;
    struct caudal_problem problem;
    cdl_problem(&problem, CAUDAL_ERR_SYNTAX, 0, "a%sz", "\n\r\t\x1b[31m\x7f");
    assert_string_equal(problem.message, "a????[31m?z");
}

static void bytes_above_ascii_are_left_as_they_are(void **state)
{
    (void)state;
    struct caudal_problem problem;
    cdl_problem(&problem, CAUDAL_ERR_SYNTAX, 0, "caf\xc3\xa9");
    assert_string_equal(problem.message, "caf\xc3\xa9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_holds_code_position_and_words),
        cmocka_unit_test(the_code_is_returned),
        cmocka_unit_test(nobody_has_to_listen),
        cmocka_unit_test(a_long_message_is_cut_and_ends),
        cmocka_unit_test(control_characters_from_outside_become_question_marks),
        cmocka_unit_test(bytes_above_ascii_are_left_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
