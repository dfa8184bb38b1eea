#pragma once
#include <torch/optim.h>

/// What each optimizer keeps, in Python's names and order. A layout serves both ways: its functions
/// show every field to a visitor, which writes it (FieldWriter) or sets it (FieldReader).
///
/// Of Python's options without a C++ counterpart, `fixed` ones change the result, so only the value
/// that C++ computes with is taken; `idle` ones (foreach, fused, ...) only choose between equal
/// computations.
namespace lockstep::checkpoint {

template <class OptionsT, class StateT, bool kDecoupled>
struct AdamLayout {
  using Options = OptionsT;
  using State = StateT;

  static void options(auto& visit, Options& options) {
    visit.number("lr", options.lr());
    visit.pair("betas", options.betas());
    visit.number("eps", options.eps());
    visit.number("weight_decay", options.weight_decay());
    visit.flag("amsgrad", options.amsgrad());
    visit.fixed("maximize", false);
    visit.idle("foreach");
    visit.idle("capturable", false);
    visit.idle("differentiable", false);
    visit.idle("fused");
    visit.fixed("decoupled_weight_decay", kDecoupled);
  }

  static void state(auto& visit, State& state, Options& options) {
    visit.step(state.step());
    visit.tensor("exp_avg", state.exp_avg(), true);
    visit.tensor("exp_avg_sq", state.exp_avg_sq(), true);
    visit.tensor("max_exp_avg_sq", state.max_exp_avg_sq(), options.amsgrad());
  }
};

struct SgdLayout {
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;

  static void options(auto& visit, Options& options) {
    visit.number("lr", options.lr());
    visit.number("momentum", options.momentum());
    visit.number("dampening", options.dampening());
    visit.number("weight_decay", options.weight_decay());
    visit.flag("nesterov", options.nesterov());
    visit.fixed("maximize", false);
    visit.idle("foreach");
    visit.idle("differentiable", false);
    visit.idle("fused");
  }

  static void state(auto& visit, State& state, Options&) {
    visit.tensor("momentum_buffer", state.momentum_buffer(), false);
  }
};

struct RmspropLayout {
  using Options = torch::optim::RMSpropOptions;
  using State = torch::optim::RMSpropParamState;

  static void options(auto& visit, Options& options) {
    visit.number("lr", options.lr());
    visit.number("momentum", options.momentum());
    visit.number("alpha", options.alpha());
    visit.number("eps", options.eps());
    visit.flag("centered", options.centered());
    visit.number("weight_decay", options.weight_decay());
    visit.idle("capturable", false);
    visit.idle("foreach");
    visit.fixed("maximize", false);
    visit.idle("differentiable", false);
  }

  static void state(auto& visit, State& state, Options& options) {
    visit.step(state.step());
    visit.tensor("square_avg", state.square_avg(), true);
    visit.tensor("momentum_buffer", state.momentum_buffer(), options.momentum() > 0);
    visit.tensor("grad_avg", state.grad_avg(), options.centered());
  }
};

struct AdagradLayout {
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;

  static void options(auto& visit, Options& options) {
    visit.number("lr", options.lr());
    visit.number("lr_decay", options.lr_decay());
    visit.number("eps", options.eps());
    visit.number("weight_decay", options.weight_decay());
    visit.number("initial_accumulator_value", options.initial_accumulator_value());
    visit.idle("foreach");
    visit.fixed("maximize", false);
    visit.idle("differentiable", false);
    visit.idle("fused");
  }

  static void state(auto& visit, State& state, Options&) {
    visit.step(state.step());
    visit.tensor("sum", state.sum(), true);
  }
};

}  // namespace lockstep::checkpoint
